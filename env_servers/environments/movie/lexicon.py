# ruff: noqa: RUF001 - phrases in Chinese, Greek, Japanese and Russian
"""The words that invented films are made of: titles, plots in six languages, places, keywords.

All of them were written for this project. Plot phrases stand
in the same order in every language, so that a plot is the same numbers in each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = [
    "ADJECTIVES",
    "ALTERNATIVES",
    "COMPANY_ENDINGS",
    "COMPANY_WORDS",
    "COUNTRIES",
    "GENRES",
    "KEYWORDS",
    "LANGUAGES",
    "NOUNS",
    "PLACES",
    "PLURALS",
    "ROLES",
    "Country",
    "Language",
]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    """Phrases between `|` and line breaks."""
    return tuple(phrase.strip() for phrase in text.replace("\n", "|").split("|"))


GENRES: Final = (
    (28, "Action"),
    (12, "Adventure"),
    (16, "Animation"),
    (35, "Comedy"),
    (80, "Crime"),
    (99, "Documentary"),
    (18, "Drama"),
    (10751, "Family"),
    (14, "Fantasy"),
    (36, "History"),
    (27, "Horror"),
    (10402, "Music"),
    (9648, "Mystery"),
    (10749, "Romance"),
    (878, "Science Fiction"),
    (53, "Thriller"),
    (10752, "War"),
    (37, "Western"),
)
"""The service's genres with their ids."""

ADJECTIVES: Final = _words(
    """Amber Ancient Azure Bitter Blind Bold Borrowed Brazen Broken Burning Calm Careless Cold
    Copper Crimson Crooked Cruel Curious Daring Dark Deep Distant Drowned Empty Endless Faint
    Fallen False Fatal Fearless Feral Fierce Final Forgotten Fragile Frozen Gentle Gilded Golden
    Grand Guilty Hidden Hollow Honest Humble Hungry Idle Iron Ivory Jagged Jealous Kindly Last
    Lawless Little Lonely Lost Loud Lucky Merciful Midnight Modern Narrow Noble Northern Obscure
    Painted Pale Paper Patient Perfect Phantom Quiet Radiant Reckless Restless Rusty Sacred Scarlet
    Secret Seventh Severed Shallow Silent Silver Simple Sleeping Slow Southern Stolen Strange
    Stubborn Sudden Tender Thirsty Tired Twisted Unseen Velvet Violet Wandering Weary Wicked
    Wild Winter Wooden Worthy Young"""
)
NOUNS: Final = _words(
    """Alibi Anchor Angel Anthem Archive Arrow Autumn Ballad Bargain Beacon Bell Border Bridge
    Butcher Cabin Candle Canyon Captain Caravan Carnival Castle Cathedral Ceremony Chapel Cipher
    Circus Citadel Clockmaker Coast Comet Compass Confession Crossing Crown Curtain Dawn Daughter
    Debt Desert Detective Diary Dragon Dream Duel Echo Eclipse Ember Empire Engine Escape Exile
    Falcon Farewell Ferry Festival Fever Fire Flood Forest Fortress Fugitive Garden Gambit Ghost
    Glacier Guardian Guest Harbor Harvest Haven Heart Heir Horizon Hour House Hunter Illusion
    Inheritance Island Journey Judge Jury Key Kingdom Labyrinth Lantern Legacy Letter Library
    Lighthouse Lion Locksmith Lullaby Machine Magician Maestro Mask Meadow Memory Merchant Messenger
    Mile Miracle Mirror Moon Mountain Murmur Museum Nomad Oath Ocean Oracle Orchard Orchestra
    Outlaw Palace Paradox Passage Passenger Pearl Photograph Pilgrim Pilot Player Portrait Promise
    Prophet Quarry Queen Raven Rebel Refuge Requiem Riddle Rival River Road Rose Ruin Sailor
    Sanctuary Scholar Season Sentinel Serpent Shadow Shelter Shore Signal Sister Sky Smuggler Snow
    Soldier Song Sparrow Spy Star Station Stone Storm Stranger Street Summer Swimmer Symphony
    Tailor Temple Thief Thunder Tide Tower Trail Train Traveler Treasure Trial Tunnel Valley Verdict
    Violin Voyage Waltz Watchman Water Weaver Whisper Widow Wind Window Witness Wolf"""
)
PLURALS: Final = _words(
    """Angels Ashes Bells Birds Bones Bridges Brothers Candles Clouds Crowns Daughters Doors Dreams
    Echoes Embers Enemies Fathers Feathers Fields Fires Flowers Gardens Ghosts Heroes Horses Islands
    Kings Lanterns Letters Lies Lions Lovers Machines Masks Mirrors Monsters Mothers Mountains
    Nights Oaths Oceans Pearls Pilgrims Promises Rivers Roads Ruins Sailors Secrets Shadows Ships
    Sisters Songs Sparrows Stars Stones Storms Strangers Streets Summers Thieves Tides Towers Trains
    Voices Wolves"""
)
PLACES: Final = _phrases(
    """Alder Bay|Ash Creek|Black Harbor|Bright Falls|Cedar Hill|Cold Spring|Dover Lane|Eagle Point
    Elm Street North|Fairview|Fox Hollow|Glass Beach|Granite Pass|Half Moon Road|High Meadow
    Iron Gate|Juniper Flats|Kestrel Rock|Lake Ondine|Linden Square|Lost River|Maple Court
    Mill Lane|Misty Cape|New Avalon|North Pier|Old Quarter|Orchard Row|Pine Ridge|Port Amity
    Queens Landing|Raven Hill|Red Mesa|Saint Orlan|Salt Lake Road|Silver City|Stony Brook
    Summer Isle|Three Rivers|Timber Valley|Upper Marsh|Vesper Street|West Haven|White Cliff
    Willow Bend|Winter Quay|Wolf Lake|York Crossing"""
)

ROLES: Final = _phrases(
    """Bartender|Bus Driver|Captain|Chef|Coach|Concierge|Dancer|Doctor|Guard|Journalist|Judge
    Landlady|Lawyer|Librarian|Mayor|Mechanic|Neighbor|Nurse|Old Man|Painter|Pilot|Policeman
    Priest|Reporter|Singer|Taxi Driver|Teacher|Waitress"""
)

KEYWORDS: Final = _phrases(
    """adoption|ambition|amnesia|ancient ruins|art theft|artificial intelligence
    assassin|avalanche|bank robbery|based on a play|based on a short story|betrayal|blackmail
    border town|boxing|boarding school|brother brother relationship|bureaucracy|carnival|chase
    childhood friends|circus|clockwork|coming of age|conspiracy|corruption|courtroom|cyborg|dance
    desert|detective|diary|disguise|divorce|double life|dragon|dream|drought|duel|dystopia
    earthquake|eclipse|election|escape|exile|expedition|family feud|family secret|farm
    father daughter relationship|fishing village|flashback|football|forbidden love|forest|forgery
    fugitive|gambling|ghost|grief|haunted house|heist|hidden treasure|hitchhiker|homecoming|hospital
    hostage|hotel|identity swap|inheritance|insomnia|island|jazz|jealousy|journalist|kidnapping
    labyrinth|lawyer|lighthouse|loneliness|lost letter|magic|marathon|marriage of convenience|memory
    mentor|mining town|missing person|mistaken identity|monastery|monster|mother son relationship
    mountain village|murder|museum|musician|nightclub|nuclear threat|ocean voyage|old friends|opera
    orphan|painter|parallel world|pilgrimage|pirate|poetry|police|political intrigue|pregnancy
    prison|private investigator|prophecy|puppet|race against time|railway|rebellion|reconciliation
    redemption|refugee|restaurant|revenge|rivalry|road trip|robot|rural life|sailor|sea monster
    secret society|serial killer|shipwreck|siblings|siege|sister sister relationship|slapstick
    small town|smuggling|snowstorm|space station|spy|storm|student life|submarine|surveillance
    survival|swordplay|teacher|theatre|time loop|time travel|trial|twins|undercover|unrequited love
    vampire|vineyard|war|wedding|whistleblower|wilderness|witch|woman director|writer's block
    zombie"""
)

COMPANY_WORDS: Final = _words(
    """Aldine Anchorage Argentum Aurora Banyan Beacon Bluebird Boreal Brass Calliope Canopy Cardinal
    Cascade Celeste Cinder Clover Cobalt Compass Cormorant Corona Crescent Cypress Delta Driftwood
    Elderwood Ember Equinox Evergreen Fable Falcon Fathom Fennel Firefly Foundry Foxglove Gable
    Gallant Gannet Garnet Glasshouse Granite Greyhound Halcyon Harrier Heliotrope Heron Hollyhock
    Horizon Indigo Ironbridge Ivory Jasmine Juniper Kestrel Keystone Kingfisher Lagoon Lantern
    Larkspur Lodestar Longitude Lotus Magnolia Mandarin Marigold Meridian Millstone Monarch
    Moonrise Mulberry Nebula Nightjar Northstar Oakleaf Obsidian Octave Onyx Orchard Osprey Palisade
    Papyrus Parallax Pelican Petrel Pinnacle Plover Prism Quarry Quill Ravine Redwood Rookery
    Saffron Sandpiper Sapphire Sequoia Skylark Solstice Sparrowhawk Starling Stillwater Sundial
    Tamarind Tern Thistle Topaz Tributary Tundra Umbra Vantage Verdant Vesper Wavecrest Whitethorn
    Wisteria Wren Zenith Zephyr"""
)
COMPANY_ENDINGS: Final = _phrases(
    """Pictures|Films|Entertainment|Studios|Productions|Film Company|Media|Cinema|Motion Pictures
    Filmworks|Features|Film Group|Pictures International|Film Partners"""
)

ALTERNATIVES: Final = (
    ("BR", "{title}: O Filme", ""),
    ("CZ", "{title} aneb {noun}", ""),
    ("DE", "{title} - Der Film", "TV"),
    ("ES", "{title}: la película", ""),
    ("FI", "{title} - elokuva", ""),
    ("FR", "{title}, le film", ""),
    ("GR", "{title}: Η ταινία", ""),
    ("HU", "{title} - A film", ""),
    ("IT", "{title} - Il film", ""),
    ("JP", "{title}：{year}", ""),
    ("KR", "{title} 더 무비", ""),
    ("PL", "{title}: film", ""),
    ("RU", "{title}: Фильм", ""),
    ("SE", "Filmen om {title}", ""),
    ("TR", "{title} Filmi", ""),
    ("TW", "{title}電影版", ""),
    ("UA", "{title}: Стрічка", ""),
    ("US", "Untitled {noun} Project", "working title"),
    ("US", "{title} - Extended Cut", ""),
    ("GB", "{title} and the {noun}", "DVD title"),
)
"""(country, pattern, type) of further titles; each country's pattern gives another title."""


@dataclass(frozen=True, slots=True)
class Country:
    """A country with a film industry."""

    code: str
    name: str
    culture: str
    cities: tuple[str, ...]
    """Places of birth, written as the service writes them."""


def _country(code: str, name: str, culture: str, suffix: str, cities: str) -> Country:
    listed = tuple(f"{city.strip()}, {suffix}" for city in cities.split("|"))
    return Country(code, name, culture, listed)


COUNTRIES: Final = (
    _country(
        "US",
        "United States of America",
        "english",
        "USA",
        "Albany, New York|Austin, Texas|Boise, Idaho|Boston, Massachusetts|Buffalo, New York"
        "|Chicago, Illinois|Cleveland, Ohio|Denver, Colorado|Detroit, Michigan|El Paso, Texas"
        "|Houston, Texas|Los Angeles, California|Memphis, Tennessee|Miami, Florida"
        "|Milwaukee, Wisconsin|Nashville, Tennessee|New Orleans, Louisiana"
        "|New York City, New York|Oakland, California|Omaha, Nebraska"
        "|Philadelphia, Pennsylvania|Phoenix, Arizona|Portland, Oregon|San Diego, California"
        "|Seattle, Washington|St. Louis, Missouri|Tucson, Arizona|Tulsa, Oklahoma",
    ),
    _country(
        "GB",
        "United Kingdom",
        "english",
        "UK",
        "Aberdeen, Scotland|Bath, Somerset, England|Belfast, Northern Ireland"
        "|Birmingham, West Midlands, England|Bristol, England|Cardiff, Wales"
        "|Edinburgh, Scotland|Glasgow, Scotland|Leeds, West Yorkshire, England"
        "|Liverpool, Merseyside, England|London, England|Manchester, England"
        "|Norwich, Norfolk, England|Oxford, Oxfordshire, England|Swansea, Wales|York, England",
    ),
    _country(
        "FR",
        "France",
        "french",
        "France",
        "Bordeaux, Gironde|Brest, Finistère|Dijon, Côte-d'Or|Grenoble, Isère|Lille, Nord"
        "|Lyon, Rhône|Marseille, Bouches-du-Rhône|Nantes, Loire-Atlantique|Paris"
        "|Rouen, Seine-Maritime|Strasbourg, Bas-Rhin|Toulouse, Haute-Garonne",
    ),
    _country(
        "DE",
        "Germany",
        "german",
        "Germany",
        "Berlin|Bremen|Dresden, Saxony|Düsseldorf, North Rhine-Westphalia|Erfurt, Thuringia"
        "|Frankfurt am Main, Hesse|Hamburg|Hannover, Lower Saxony|Leipzig, Saxony"
        "|Munich, Bavaria|Nuremberg, Bavaria|Stuttgart, Baden-Württemberg",
    ),
    _country(
        "IT",
        "Italy",
        "italian",
        "Italy",
        "Bari, Apulia|Bologna, Emilia-Romagna|Cagliari, Sardinia|Catania, Sicily"
        "|Florence, Tuscany|Genoa, Liguria|Milan, Lombardy|Naples, Campania|Palermo, Sicily"
        "|Rome, Lazio|Turin, Piedmont|Verona, Veneto",
    ),
    _country(
        "ES",
        "Spain",
        "spanish",
        "Spain",
        "Barcelona, Catalonia|Bilbao, Vizcaya|Cádiz, Andalusia|Granada, Andalusia|Madrid"
        "|Málaga, Andalusia|Oviedo, Asturias|Salamanca|Seville, Andalusia|Valencia"
        "|Valladolid|Zaragoza, Aragón",
    ),
    _country(
        "JP",
        "Japan",
        "japanese",
        "Japan",
        "Fukuoka|Hiroshima|Kanazawa, Ishikawa|Kobe, Hyogo|Kyoto|Nagasaki|Nagoya, Aichi"
        "|Naha, Okinawa|Osaka|Sapporo, Hokkaido|Sendai, Miyagi|Tokyo|Yokohama, Kanagawa",
    ),
    _country(
        "KR",
        "South Korea",
        "korean",
        "South Korea",
        "Andong, North Gyeongsang|Busan|Chuncheon, Gangwon|Daegu|Daejeon|Gwangju|Incheon"
        "|Jeonju, North Jeolla|Mokpo, South Jeolla|Seoul|Suwon, Gyeonggi|Ulsan",
    ),
    _country(
        "CN",
        "China",
        "chinese",
        "China",
        "Beijing|Changsha, Hunan|Chengdu, Sichuan|Chongqing|Dalian, Liaoning|Guangzhou, Guangdong"
        "|Hangzhou, Zhejiang|Harbin, Heilongjiang|Nanjing, Jiangsu|Qingdao, Shandong|Shanghai"
        "|Wuhan, Hubei|Xi'an, Shaanxi",
    ),
    _country(
        "IN",
        "India",
        "indian",
        "India",
        "Ahmedabad, Gujarat|Bengaluru, Karnataka|Bhopal, Madhya Pradesh|Chennai, Tamil Nadu"
        "|Guwahati, Assam|Hyderabad, Telangana|Jaipur, Rajasthan|Kochi, Kerala"
        "|Kolkata, West Bengal|Lucknow, Uttar Pradesh|Mumbai, Maharashtra|New Delhi, Delhi",
    ),
    _country(
        "RU",
        "Russia",
        "russian",
        "Russia",
        "Irkutsk|Kazan, Tatarstan|Moscow|Murmansk|Nizhny Novgorod|Novosibirsk|Omsk|Perm|Pskov"
        "|Saint Petersburg|Samara|Tomsk|Vladivostok|Yekaterinburg",
    ),
    _country(
        "BR",
        "Brazil",
        "portuguese",
        "Brazil",
        "Belém, Pará|Belo Horizonte, Minas Gerais|Brasília, Distrito Federal|Curitiba, Paraná"
        "|Fortaleza, Ceará|Manaus, Amazonas|Natal, Rio Grande do Norte|Olinda, Pernambuco"
        "|Porto Alegre, Rio Grande do Sul|Recife, Pernambuco|Rio de Janeiro|Salvador, Bahia"
        "|São Paulo",
    ),
    _country(
        "EG",
        "Egypt",
        "arabic",
        "Egypt",
        "Alexandria|Aswan|Asyut|Cairo|Damietta|Fayoum|Giza|Ismailia|Luxor|Mansoura|Minya"
        "|Port Said|Suez|Tanta",
    ),
)


@dataclass(frozen=True, slots=True)
class Language:
    """A language that plots are told in."""

    country: str
    code: str
    name: str
    """In the language itself, as the service writes it."""
    english_name: str
    settings: tuple[str, ...]
    heroes: tuple[str, ...]
    events: tuple[str, ...]
    closings: tuple[str, ...]
    joint: str = " "
    """Between hero and event."""
    stop: str = ". "
    """After the setting."""

    def plot(self, setting: int, hero: int, event: int, closing: int) -> str:
        """Return the plot of four numbers, each taken modulo its table's length."""
        where = self.settings[setting % len(self.settings)]
        who = self.heroes[hero % len(self.heroes)]
        what = self.events[event % len(self.events)]
        end = self.closings[closing % len(self.closings)]
        return f"{where}{self.stop}{who}{self.joint}{what}{end}"


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines())


LANGUAGES: Final = (
    Language(
        "US",
        "en",
        "English",
        "English",
        _lines("""A mountain village in winter
        A port city in the fifties
        A space station far from home
        A boarding school by the sea
        A desert town without water
        The capital on the eve of an election
        A night train across the continent
        A small island after the storm
        An old theatre in the suburbs
        A farm at the edge of the forest"""),
        _lines("""A young doctor
        A retired detective
        A stubborn schoolgirl
        A failed musician
        A quiet locksmith
        A famous actress
        A homesick soldier
        An ambitious journalist
        A widowed fisherman
        A shy mathematician"""),
        _lines("""discovers a secret that the family has kept for decades
        has to spend one night with a bitter rival
        finds a letter that was never meant to arrive
        sets out to find a missing child
        agrees to one last robbery
        falls in love with a stranger who does not exist on paper
        witnesses a crime that nobody believes
        inherits a house full of debts and ghosts
        builds a machine that remembers everything
        is mistaken for a wanted spy
        tries to save the last cinema in town
        leads a group of strangers through the wilderness"""),
        _lines(""". But nothing is as it seems.
        . Soon there is no way back.
        , and friendship is put to the test.
        , while time is running out.
        . A long journey begins.
        , and the past catches up.
        . Then the telephone rings."""),
    ),
    Language(
        "NL",
        "nl",
        "Nederlands",
        "Dutch",
        _lines("""Een bergdorp in de winter
        Een havenstad in de jaren vijftig
        Een ruimtestation ver van huis
        Een kostschool aan zee
        Een woestijnstad zonder water
        De hoofdstad aan de vooravond van verkiezingen
        Een nachttrein dwars door het continent
        Een klein eiland na de storm
        Een oud theater in de buitenwijken
        Een boerderij aan de rand van het bos"""),
        _lines("""Een jonge arts
        Een gepensioneerde rechercheur
        Een koppig schoolmeisje
        Een mislukte muzikant
        Een stille slotenmaker
        Een beroemde actrice
        Een soldaat met heimwee
        Een ambitieuze journalist
        Een visser die weduwnaar is
        Een verlegen wiskundige"""),
        _lines("""ontdekt een geheim dat de familie tientallen jaren heeft bewaard
        moet een nacht doorbrengen met een bittere rivaal
        vindt een brief die nooit had mogen aankomen
        gaat op zoek naar een vermist kind
        stemt in met een laatste overval
        wordt verliefd op een onbekende die op papier niet bestaat
        is getuige van een misdaad die niemand gelooft
        erft een huis vol schulden en spoken
        bouwt een machine die alles onthoudt
        wordt aangezien voor een gezochte spion
        probeert de laatste bioscoop van de stad te redden
        leidt een groep vreemden door de wildernis"""),
        _lines(""". Maar niets is wat het lijkt.
        . Al snel is er geen weg terug.
        , en de vriendschap wordt op de proef gesteld.
        , terwijl de tijd dringt.
        . Een lange reis begint.
        , en het verleden keert terug.
        . Dan gaat de telefoon."""),
    ),
    Language(
        "CN",
        "zh",
        "普通话",
        "Mandarin",
        _lines("""冬天的一座山村
        五十年代的一座港口城市
        远离家园的空间站
        海边的一所寄宿学校
        一座没有水的沙漠小镇
        大选前夕的首都
        横穿大陆的夜行列车
        暴风雨后的一座小岛
        郊外的一座老剧院
        森林边上的一座农场"""),
        _lines("""一位年轻的医生
        一位退休的侦探
        一个倔强的女学生
        一个失意的音乐家
        一个沉默的锁匠
        一位著名的女演员
        一个思乡的士兵
        一位雄心勃勃的记者
        一位丧偶的渔夫
        一位害羞的数学家"""),
        _lines("""发现了家族隐藏数十年的秘密
        不得不与宿敌共度一夜
        找到一封本不该寄到的信
        踏上寻找失踪孩子的旅程
        答应参加最后一次抢劫
        爱上了一个没有身份的陌生人
        目睹了一桩无人相信的罪案
        继承了一座满是债务和鬼魂的房子
        造出了一台记住一切的机器
        被误认为是通缉的间谍
        试图拯救城里最后一家电影院
        带领一群陌生人穿越荒野"""),
        _lines("""。但一切都不是表面看到的样子。
        。很快就没有了退路。
        ，友谊面临考验。
        ，而时间所剩无几。
        。漫长的旅程开始了。
        ，往事也随之而来。
        。这时电话响了。"""),
        joint="",
        stop="。",
    ),
    Language(
        "DE",
        "de",
        "Deutsch",
        "German",
        _lines("""Ein Bergdorf im Winter
        Eine Hafenstadt in den fünfziger Jahren
        Eine Raumstation weit weg von zu Hause
        Ein Internat am Meer
        Eine Wüstenstadt ohne Wasser
        Die Hauptstadt am Vorabend einer Wahl
        Ein Nachtzug quer durch den Kontinent
        Eine kleine Insel nach dem Sturm
        Ein altes Theater in der Vorstadt
        Ein Hof am Rand des Waldes"""),
        _lines("""Eine junge Ärztin
        Ein pensionierter Kommissar
        Ein eigensinniges Schulmädchen
        Ein gescheiterter Musiker
        Ein stiller Schlosser
        Eine berühmte Schauspielerin
        Ein Soldat mit Heimweh
        Eine ehrgeizige Journalistin
        Ein verwitweter Fischer
        Ein schüchterner Mathematiker"""),
        _lines("""entdeckt ein Geheimnis, das die Familie seit Jahrzehnten hütet
        muss eine Nacht mit dem erbittertsten Rivalen verbringen
        findet einen Brief, der nie ankommen sollte
        macht sich auf die Suche nach einem vermissten Kind
        lässt sich auf einen letzten Raub ein
        verliebt sich in jemanden, den es auf dem Papier nicht gibt
        beobachtet ein Verbrechen, an das niemand glaubt
        erbt ein Haus voller Schulden und Gespenster
        baut eine Maschine, die sich an alles erinnert
        wird mit einem gesuchten Spion verwechselt
        will das letzte Kino der Stadt retten
        führt eine Gruppe von Fremden durch die Wildnis"""),
        _lines(""". Doch nichts ist, wie es scheint.
        . Bald gibt es kein Zurück mehr.
        , und eine Freundschaft steht auf dem Spiel.
        , während die Zeit davonläuft.
        . Eine lange Reise beginnt.
        , und die Vergangenheit kehrt zurück.
        . Dann klingelt das Telefon."""),
    ),
    Language(
        "RU",
        "ru",
        "Pусский",
        "Russian",
        _lines("""Горная деревня зимой
        Портовый город пятидесятых годов
        Космическая станция вдали от дома
        Школа-интернат у моря
        Город в пустыне, где нет воды
        Столица накануне выборов
        Ночной поезд через весь континент
        Маленький остров после бури
        Старый театр на окраине
        Ферма на краю леса"""),
        _lines("""Молодая женщина-врач
        Сыщик на пенсии
        Упрямая школьница
        Музыкант-неудачник
        Тихий слесарь
        Знаменитая актриса
        Солдат, тоскующий по дому,
        Честолюбивый журналист
        Овдовевший рыбак
        Застенчивый математик"""),
        _lines("""узнаёт тайну, которую семья хранит десятилетиями
        проводит ночь рядом с заклятым соперником
        находит письмо, которое не должно было дойти
        отправляется на поиски пропавшего ребёнка
        соглашается на последнее ограбление
        влюбляется в человека, которого нет ни в одном документе
        видит преступление, в которое никто не верит
        получает в наследство дом, полный долгов и призраков
        строит машину, которая помнит всё
        попадает под подозрение в шпионаже
        пытается спасти последний кинотеатр города
        ведёт группу незнакомцев через глушь"""),
        _lines(""". Но всё не так, как кажется.
        . Вскоре пути назад уже нет.
        , и дружба подвергается испытанию.
        , а время на исходе.
        . Начинается долгое путешествие.
        , и прошлое возвращается.
        . И тут звонит телефон."""),
    ),
    Language(
        "JP",
        "ja",
        "日本語",
        "Japanese",
        _lines("""冬の山村
        五十年代の港町
        故郷から遠く離れた宇宙ステーション
        海辺の寄宿学校
        水のない砂漠の町
        選挙前夜の首都
        大陸を横断する夜行列車
        嵐の後の小さな島
        郊外の古い劇場
        森の外れの農場"""),
        _lines("""若い医師
        引退した刑事
        頑固な女子生徒
        売れない音楽家
        無口な錠前師
        有名な女優
        故郷を思う兵士
        野心的な記者
        妻を亡くした漁師
        内気な数学者"""),
        _lines("""は、家族が何十年も隠してきた秘密を知る
        は、宿敵と一夜を過ごすことになる
        は、届くはずのなかった手紙を見つける
        は、行方不明の子供を探す旅に出る
        は、最後の強盗に手を貸すことにする
        は、書類の上には存在しない人に恋をする
        は、誰も信じない犯罪を目撃する
        は、借金と幽霊だらけの家を相続する
        は、すべてを記憶する機械を作る
        は、指名手配のスパイと間違えられる
        は、町で最後の映画館を救おうとする
        は、見知らぬ人々を率いて荒野を越える"""),
        _lines("""。だが、見かけ通りのものは何もない。
        。やがて後戻りはできなくなる。
        。そして友情が試される。
        。残された時間は少ない。
        。長い旅が始まる。
        。そして過去が追いついてくる。
        。そのとき電話が鳴る。"""),
        joint="",
        stop="。",
    ),
)
"""The six languages whose translations the original's function keeps."""
