"""The viewer: runs, episodes and tokens in a browser. `python -m orchestrator.view` starts it.

    access.py        who may ask: token, Host, Origin; what a page may load
    library.py       the runs and trainings below the given folders
    background.py    what takes longer than a page waits
    compared.py      runs compared with each other
    trainings.py     trainings: agents, what was kept; training_log.py: their curves
    opened_run.py    one run as the viewer holds it: columns of all records, kept up to date
    run_data.py      a run's page: what is there at once, and what follows
    exports.py       files that a browser saves
    selection.py     which episodes of a run are listed, and in which order
    curves.py        figures of a run over time
    transcript.py    one record as the pages show it: turns, tokens
    live.py          what a run is playing now, asked of the process that plays it
    watching.py      that as the pages ask for it
    word_index.py    words in what was said, in a cache beside the run
    live_servers.py  environment servers that pages ask, on a loop of their own
    travel.py        states of recorded episodes from those servers
    state_data.py    such a state as the pages show it; its views as a browser may load them
    application.py   addresses: a JSON API, the pages, their assets
    assets/          what the browser runs: modules of its own language, no build step

Nothing here writes to a run, and no environment is asked before a person wants that. Pages get data
as JSON and show every string of it as text.
"""
