"""The words of invented research: fields with their topics and keywords, methods, places, venues.

All of them were written for this project. Names of venues and organisations are put together from
parts, so any likeness to a real one is chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["CITIES", "FIELDS", "METHODS", "ORGANISATIONS", "QUALITIES", "TITLES", "Field"]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of research."""

    name: str
    topics: tuple[str, ...]
    """What its papers are about; no topic is in two fields."""
    keywords: tuple[str, ...]


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(phrase.strip() for phrase in text.replace("\n", " ").split("|"))


def _field(name: str, topics: str, keywords: str) -> Field:
    return Field(name, _phrases(topics), _phrases(keywords))


FIELDS: Final = (
    _field(
        "Graph Learning",
        """Node Classification|Link Prediction|Community Detection|Graph Matching
        |Molecule Generation|Traffic Forecasting|Knowledge Graph Completion|Graph Clustering
        |Recommendation on Graphs
        |Heterogeneous Network Embedding|Graph Condensation|Subgraph Counting""",
        """graph neural network|message passing|node embedding|spectral clustering|homophily
        |oversmoothing|attention|random walk|contrastive learning|graph transformer""",
    ),
    _field(
        "Computer Vision",
        """Semantic Segmentation|Object Tracking|Depth Estimation|Image Restoration
        |Face Anti-Spoofing|Action Recognition|Pose Estimation|Image Captioning|Scene Text Reading
        |Optical Flow|Crowd Counting|Visual Localization""",
        """convolution|feature pyramid|self-supervision|transformer|domain shift|data augmentation
        |image retrieval|occlusion|time of flight|distillation""",
    ),
    _field(
        "Natural Language Processing",
        """Relation Extraction|Machine Translation|Question Answering|Dialogue State Tracking
        |Abstractive Summarization|Entity Linking|Sentiment Analysis|Grammar Correction
        |Semantic Parsing|Fact Verification|Coreference Resolution|Paraphrase Detection""",
        """pretraining|language model|tokenization|prompting|low resource|alignment|beam search
        |annotation|multilinguality|evaluation""",
    ),
    _field(
        "Reinforcement Learning",
        """Offline Policy Learning|Multi-Agent Coordination|Safe Exploration|Reward Design
        |Hierarchical Control|Imitation from Observation|Credit Assignment|Sim-to-Real Transfer
        |Model-Based Planning|Goal-Conditioned Control|Bandit Feedback|Inverse Reward Inference""",
        """actor-critic|value function|exploration|world model|temporal difference|curriculum
        |policy gradient|replay buffer|partial observability|regret""",
    ),
    _field(
        "Databases",
        """Query Optimization|Index Selection|Stream Joins|Entity Resolution|Cardinality Estimation
        |Transaction Scheduling|Data Cleaning|Schema Matching|Graph Query Processing
        |Time Series Storage|Approximate Aggregation|Provenance Tracking""",
        """b-tree|column store|concurrency control|sketches|skyline|sampling|materialized view
        |learned index|consistency|benchmark""",
    ),
    _field(
        "Computer Security",
        """Intrusion Detection|Malware Classification|Side-Channel Analysis|Phishing Detection
        |Binary Similarity|Enclave Attestation|Fuzzing of Drivers|Password Strength Estimation
        |Spoofing of Navigation Signals|Firmware Auditing|Access Control|Key Agreement""",
        """trusted execution|anomaly detection|encryption|adversarial example|taint analysis
        |blockchain|privacy|authentication|honeypot|side channel""",
    ),
    _field(
        "Networking",
        """Congestion Control|Spectrum Sensing|Edge Caching|Network Slicing|Indoor Positioning
        |Routing in Vehicular Networks|Packet Classification|Beam Management|Traffic Engineering
        |Mobile Crowdsensing|Data Center Scheduling|Satellite Handover""",
        """5g|software-defined networking|latency|throughput|mimo|internet of things|mesh|qos
        |interference|measurement""",
    ),
    _field(
        "Robotics",
        """Grasp Planning|Legged Locomotion|Fault-Tolerant Flight|Simultaneous Localization
        |Human-Robot Handover|Swarm Navigation|Surgical Assistance|Tactile Exploration
        |Motion Planning|Deformable Object Handling|Underwater Inspection|Visual Servoing""",
        """sliding mode control|inverse kinematics|lidar|trajectory optimization|compliance
        |quadrotor|sensor fusion|teleoperation|calibration|state estimation""",
    ),
    _field(
        "Software Engineering",
        """Defect Prediction|Program Repair|Code Review|Test Generation|API Migration
        |Clone Detection|Log Parsing|Requirements Tracing|Build Failure Diagnosis
        |Technical Debt Tracking|Type Inference|Code Search""",
        """static analysis|mutation testing|open source|continuous integration|refactoring
        |empirical study|code smell|bug report|symbolic execution|maintenance""",
    ),
    _field(
        "Human-Computer Interaction",
        """Gaze Interaction|Gesture Keyboards|Notification Management|Accessible Maps
        |Collaborative Writing|Eye Tracking Analysis|Voice Assistants at Home|Haptic Feedback
        |Learning Dashboards|Games for Health|Remote Meetings|Explanation Interfaces""",
        """user study|visual analytics|accessibility|virtual reality|usability|co-design|attention
        |wearables|trust|creativity support""",
    ),
    _field(
        "Optimization",
        """Vehicle Routing|Sparse Regression|Bilevel Programming|Portfolio Selection
        |Topology Design|Bin Packing|Stochastic Scheduling|Matrix Completion|Submodular Cover
        |Distributed Averaging|Low-Rank Recovery|Derivative-Free Search""",
        """convexity|branch and bound|evolutionary algorithm|hard thresholding|metaheuristic
        |duality|gradient descent|robustness|convergence rate|constraint programming""",
    ),
    _field(
        "Bioinformatics",
        """Protein Folding|Gene Expression Imputation|Drug Repurposing|Variant Calling
        |Cell Type Annotation|Pathway Inference|Genome Assembly|Epitope Prediction
        |Microbiome Profiling|RNA Structure Search|Medical Image Registration
        |Biomarker Discovery""",
        """sequence alignment|single cell|phylogeny|omics|docking|survival analysis
        |mass spectrometry|regulatory network|cancer|imputation""",
    ),
    _field(
        "Theory of Computation",
        """Property Testing|Online Matching|Circuit Lower Bounds|Streaming Heavy Hitters
        |Graph Sparsification|Communication Complexity|Facility Location|Locally Decodable Codes
        |Learning of Juntas|Parameterized Deletion|Fair Division|Distance Oracles""",
        """approximation algorithm|lower bound|randomness|hardness|sketching|fixed-parameter
        |expanders|game theory|sublinear time|derandomization""",
    ),
    _field(
        "Computer Graphics",
        """Cloth Simulation|Mesh Parameterization|Neural Rendering|Light Transport|Hair Modeling
        |Texture Synthesis|Character Animation|Fluid Control|Shape Correspondence
        |Procedural Cities|Brittle Fracture|Sketch Beautification""",
        """ray tracing|finite elements|radiance field|remeshing|animation|geometry processing
        |gpu|denoising|material|skinning""",
    ),
    _field(
        "Speech and Audio",
        """Speaker Verification|Speech Enhancement|Music Transcription|Keyword Spotting
        |Accent Conversion|Sound Event Detection|Source Separation|Singing Synthesis
        |Emotion Recognition from Voice|Audio Watermarking|Dysarthria Assessment|Beat Tracking""",
        """spectrogram|vocoder|acoustic model|diarization|voice conversion|beamforming|noise
        |prosody|end-to-end|phoneme""",
    ),
    _field(
        "Distributed Systems",
        """Consensus under Churn|Serverless Scheduling|Failure Detection|Geo-Replication
        |Cache Coherence|Work Stealing|Straggler Mitigation|Checkpointing|Trace Analysis
        |Autoscaling|Container Placement|Byzantine Broadcast""",
        """fault tolerance|replication|cloud|microservices|load balancing|gossip|tail latency
        |storage|virtualization|energy efficiency""",
    ),
    _field(
        "Information Retrieval",
        """Query Suggestion|Learning to Rank|Session Search|Citation Recommendation
        |Conversational Search|Click Modeling|Passage Reranking|Expert Finding|Music Playlists
        |Cold-Start Recommendation|Cross-Language Search|News Deduplication""",
        """relevance feedback|implicit feedback|dense retrieval|diversity|collaborative filtering
        |query log|term weighting|user model|fairness|popularity bias""",
    ),
    _field(
        "Formal Methods",
        """Loop Invariant Synthesis|Model Checking of Protocols|Termination Analysis
        |Refinement of Contracts|Runtime Verification|Proof Repair|Timed Automata Learning
        |Separation of Heaps|Neural Network Verification|Hybrid System Falsification
        |Reactive Synthesis|Equivalence of Compilers""",
        """smt|abstract interpretation|temporal logic|theorem proving|bisimulation|automata
        |satisfiability|specification|game solving|soundness""",
    ),
    _field(
        "Multi-Agent Systems",
        """Negotiation Protocols|Norm Emergence|Voting under Uncertainty|Explainable Coordination
        |Task Allocation|Argumentation|Trust Propagation|Coalition Formation|Auction Design
        |Simulated Markets|Opinion Dynamics|Agent Communication""",
        """mechanism design|bdi|equilibrium|explainability|reputation|epistemic logic|cooperation
        |social choice|transparency|simulation""",
    ),
    _field(
        "Remote Sensing",
        """Land Cover Mapping|Crop Yield Estimation|Change Detection|Cloud Removal
        |Ship Detection|Building Extraction|Flood Monitoring|Hyperspectral Unmixing
        |Road Network Extraction|Snow Depth Retrieval|Wildfire Risk|Urban Heat Analysis""",
        """satellite imagery|radar|meteorology|time series|pansharpening|vegetation index
        |interferometry|weak labels|geolocation|uncertainty""",
    ),
)

QUALITIES: Final = _phrases(
    """Adaptive|Amortized|Asynchronous|Balanced|Bayesian|Calibrated|Causal|Compositional|Compressed
    |Consistent|Constrained|Contextual|Contrastive|Decoupled|Deep|Differentiable|Disentangled
    |Distributed|Dual|Dynamic|Efficient|Equivariant|Factorized|Federated|Fine-Grained|Generative
    |Guided|Hierarchical|Implicit|Incremental|Interpretable|Iterative|Joint|Lightweight|Modular
    |Multi-Scale|Multi-View|Neural|Online|Probabilistic|Progressive|Regularized|Robust|Scalable
    |Self-Supervised|Semi-Supervised|Sequential|Sparse|Structured|Unified"""
)
METHODS: Final = _phrases(
    """Alignment|Attention|Autoencoders|Boosting|Clustering|Convolution|Decomposition|Diffusion
    |Distillation|Embeddings|Ensembles|Estimation|Filtering|Flows|Fusion|Gating|Hashing|Inference
    |Kernels|Matching|Memory|Mixtures|Optimization|Partitioning|Pooling|Prototypes|Pruning
    |Quantization|Ranking|Regression|Relaxation|Representation|Sampling|Search|Smoothing|Transfer"""
)
TITLES: Final = (
    "{quality} {method} for {topic}",
    "{topic} via {quality} {method}",
    "On {quality} {method} in {topic}",
    "Towards {topic} with {quality} {method}",
    "{topic}: The {quality} View of {method}",
    "Rethinking {quality} {method} for {topic}",
    "{topic} by {quality} {method} under Limited Supervision",
    "How {quality} Can {method} Be? Evidence from {topic}",
    "{quality} {method} Meets {topic}",
    "Learning {topic} from {quality} {method}",
)
"""Patterns of titles."""
CITIES: Final = _phrases(
    """Aberdeen|Adelaide|Almaty|Ankara|Antwerp|Auckland|Bandung|Bergen|Bilbao|Bogota|Bologna
    |Bordeaux|Brasov|Bremen|Brno|Calgary|Cardiff|Chengdu|Cluj|Coimbra|Daejeon|Dalian|Davao
    |Dresden|Dunedin|Durban|Espoo|Galway|Gdansk|Geneva|Ghent|Grenoble|Groningen|Haifa|Halifax
    |Hanoi|Hobart|Izmir|Jaipur|Kanazawa|Kaunas|Kigali|Kobe|Krakow|Kyoto|Lausanne|Leeds|Leuven
    |Lille|Linz|Ljubljana|Lund|Lyon|Malaga|Manchester|Medellin|Montpellier|Mysore|Nagoya|Nantes
    |Nairobi|Nanjing|Odense|Oporto|Ottawa|Oulu|Padua|Penang|Perth|Pilsen|Poznan|Pune|Quito
    |Recife|Riga|Rosario|Salerno|Sendai|Seville|Split|Suwon|Tallinn|Tampere|Tartu|Toulouse
    |Trento|Turku|Ulm|Umea|Utrecht|Valencia|Varna|Vigo|Waterloo|Wellington|Wuhan|Xiamen|York
    |Zagreb|Zaragoza"""
)
ORGANISATIONS: Final = (
    "University of {city}",
    "{city} Institute of Technology",
    "{city} Research Labs",
    "Technical University of {city}",
)
"""Patterns of organisations; every city has one of each."""
