"""The ordinary words of the invented world: trades, goods, titles of works, kinds of animals.

Contains lists of words and nothing else.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ADJECTIVES",
    "BAND_NOUNS",
    "BEASTS",
    "BODIES",
    "CRAFTS",
    "FESTIVALS",
    "FIELDS",
    "FOODS",
    "GENRES",
    "INDUSTRIES",
    "INGREDIENTS",
    "MONTHS",
    "NOUNS",
    "PROFESSIONS",
    "SCHOOLS",
    "STYLES",
]


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


MONTHS: Final = _words(
    "January, February, March, April, May, June, July, August, September, October, November, "
    "December"
)
PROFESSIONS: Final = _words(
    "novelist, novelist, film director, film director, actor, actor, actor, musician, musician, "
    "painter, architect, architect, biologist, botanist, entrepreneur, entrepreneur, explorer, "
    "engineer, football coach, journalist, historian, composer, mathematician, chemist, "
    "mountaineer, politician, sculptor, poet, judge, sea captain, cook, astronomer"
)
ADJECTIVES: Final = _words(
    "quiet, salt, crooked, amber, hollow, borrowed, distant, broken, patient, crimson, wandering, "
    "forgotten, burning, gentle, blind, drowned, idle, velvet, restless, bitter, golden, hidden, "
    "lonely, midnight, scarlet, seventh, silent, sleeping, stolen, unwritten, faithful, frozen, "
    "angry, ashen, barren, bashful, bewildered, brittle, celestial, clumsy, cobalt, courteous, "
    "cunning, defiant, diligent, dusty, elegant, endless, exiled, fearless, feathered, fragrant, "
    "generous, giddy, gilded, gloomy, haunted, homesick, hungry, immortal, impatient, invisible, "
    "ivory, jealous, jolly, kindly, lavender, luminous, mischievous, mournful, nameless, obedient, "
    "ornate, peculiar, penniless, perfect, polite, reckless, reluctant, ruthless, sapphire, "
    "scattered, shattered, shivering, sleepless, solemn, stubborn, sunken, thirsty, timid, "
    "tireless, trembling, twilight, uncertain, vanished, weary, whispering, wicked"
)
NOUNS: Final = _words(
    "orchestra, lantern, staircase, meadow, mirror, lighthouse, tailor, crown, shepherd, window, "
    "ferryman, feather, candle, horizon, wolf, key, apprentice, cathedral, tide, swallow, "
    "carriage, inheritance, vineyard, daughter, compass, beekeeper, snowfall, widow, umbrella, "
    "telescope, ladder, passenger, acrobat, almanac, anchor, astrologer, avalanche, balcony, "
    "ballroom, beacon, blizzard, bonfire, boulevard, bracelet, butcher, cabinet, cactus, cannon, "
    "caravan, carnival, carpenter, chandelier, chimney, circus, comet, conjurer, corridor, "
    "cradle, cuckoo, dagger, desert, diary, doorbell, dragon, drawer, duchess, echo, eclipse, "
    "falcon, fisherman, flute, fortress, gallows, gardener, ghost, giraffe, glacier, goldsmith, "
    "hammock, harp, hermit, hourglass, hurricane, jester, juggler, keyhole, kite, labyrinth, "
    "lagoon, locket, magician, manuscript, meteor, milkman, monastery, monsoon, necklace, "
    "nightingale, notebook, oasis, obelisk, octopus, oracle, parachute, parrot, pendulum, "
    "phoenix, pilgrim, pirate, puppeteer, pyramid, raven, riddle, saddle, scarecrow, sculptress, "
    "shipwreck, silhouette, sparrow, spider, stranger, suitcase, sundial, thief, thunder, tiger, "
    "torch, typewriter, valley, veil, violinist, volcano, voyage, waltz, weaver, windmill, wizard"
)
BAND_NOUNS: Final = _words(
    "Foxes, Badgers, Magpies, Engines, Admirals, Rockets, Sailors, Herons, Satellites, Cousins, "
    "Penguins, Robots, Circuits, Poets, Shadows, Bandits, Tigers, Kings, Drifters, Owls"
)
GENRES: Final = _words(
    "mystery, romance, comedy, family saga, adventure, thriller, satire, ghost story, "
    "coming-of-age story, historical drama"
)
STYLES: Final = _words(
    "folk, chamber jazz, synth-pop, garage rock, brass band music, ballads, choral music, "
    "dance music"
)
INDUSTRIES: Final = (
    ("Ironworks", "steel girders"), ("Motors", "motorcycles"), ("Glassworks", "window glass"),
    ("Shipyard", "cargo ships"), ("Pharma", "cough medicine"), ("Textiles", "woollen cloth"),
    ("Brewery", "dark beer"), ("Instruments", "barometers"), ("Optics", "camera lenses"),
    ("Paper Mill", "writing paper"), ("Chocolate", "pralines"), ("Clocks", "wall clocks"),
    ("Ceramics", "roof tiles"), ("Electric", "electric motors"), ("Toys", "tin soldiers"),
    ("Cycles", "bicycles"), ("Chemicals", "dyes"), ("Foods", "tinned soup"),
    ("Furniture", "oak chairs"), ("Software", "accounting programs"),
    ("Airways", "passenger flights"), ("Press", "schoolbooks"), ("Pianos", "upright pianos"),
    ("Aircraft", "gliders"), ("Shoes", "hiking boots"),
)  # fmt: skip
"""What a company calls itself after its founder, and what it makes."""
CRAFTS: Final = _words(
    "lace, smoked fish, pottery, bell founding, violins, cheese, copper kettles, honey, "
    "glass beads, knives, carpets, cider, straw hats, salt, marble, wooden toys, linen, candles, "
    "apples, clockmaking, basket weaving, leather gloves, mustard, sea charts, saffron, organs"
)
BEASTS: Final = _words(
    "warbler, beetle, vole, orchid, salamander, moth, thrush, lizard, shrew, heron, trout, "
    "gentian, fern, otter, dragonfly, bat, owl, toad, crayfish, saxifrage, finch, butterfly, "
    "hare, perch, sedge, lily, snail, marten, newt, plover"
)
BODIES: Final = _words(
    "spotted, ringed, long-tailed, pale, dwarf, crested, striped, black-headed, woolly, "
    "short-winged, blue-eyed, rusty, mottled, slender, horned, silver-backed, white-throated, "
    "broad-leaved, fringed, marbled"
)
FOODS: Final = _words(
    "dumplings, stew, pie, flatbread, soup, pudding, sausage, pancake, salad, cake, broth, "
    "pickle, porridge, tart, fritters"
)
INGREDIENTS: Final = _words(
    "buckwheat, smoked eel, chestnuts, goat cheese, sour cherries, beetroot, river trout, lentils, "
    "wild garlic, walnuts, barley, pumpkin, plums, rabbit, mushrooms, white cabbage, black beans, "
    "rye, crayfish, quince"
)
FIELDS: Final = _words(
    "literature, architecture, chemistry, mathematics, film, music, painting, biology, journalism, "
    "engineering"
)
SCHOOLS: Final = _words(
    "law, medicine, botany, engineering, classical languages, geology, music, economics"
)
FESTIVALS: Final = _words(
    "Lantern, Harvest, Kite, Puppet, Accordion, Snow, River, Chestnut, Sailing, Poetry, Bonfire, "
    "Wool"
)
