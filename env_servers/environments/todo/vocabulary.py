"""Words of the embedded to-do worlds, all of them this project's own."""

from __future__ import annotations

from typing import Final

__all__ = ["BRING", "CITIES", "EVAL_THEMES", "HINTS", "PEOPLE", "PLACES", "TRAIN_THEMES"]

Themes = dict[str, tuple[str, ...]]

TRAIN_THEMES: Final[Themes] = {
    "Garden Renewal": (
        "Prune the apple tree",
        "Dig the new flower bed",
        "Repair the garden gate",
        "Order seed potatoes",
        "Turn the compost heap",
        "Paint the tool shed",
    ),
    "Choir Season": (
        "Copy the alto parts",
        "Book the rehearsal hall",
        "Learn the second movement",
        "Print concert tickets",
        "Iron the choir robes",
        "Tune the upright piano",
    ),
    "Flat Move": (
        "Pack the bookshelves",
        "Cancel the old electricity contract",
        "Measure the new kitchen",
        "Rent a small van",
        "Hand over the keys",
        "Redirect the mail",
    ),
    "Marathon Training": (
        "Run the hill intervals",
        "Buy new running shoes",
        "Log the weekly distance",
        "Register for the half marathon",
        "Stretch with the running club",
        "Plan the race nutrition",
    ),
    "Thesis Work": (
        "Revise the methods chapter",
        "Collect the survey answers",
        "Draw the result figures",
        "Check the reference list",
        "Meet the second supervisor",
        "Back up the raw data",
    ),
    "Bicycle Workshop": (
        "True the rear wheel",
        "Replace the brake pads",
        "Clean the drive chain",
        "Fit the dynamo lamp",
        "Patch the spare tubes",
        "Adjust the saddle height",
    ),
    "Tax Papers": (
        "Sort the travel receipts",
        "Fill in the income form",
        "Request the bank statement",
        "Scan the insurance letters",
        "Compare with last year",
        "Send the signed return",
    ),
    "Street Festival": (
        "Reserve the folding tables",
        "Draw the festival map",
        "Apply for the street permit",
        "Ask the brass band",
        "Hang the paper lanterns",
        "Write the neighbour letter",
    ),
    "Spanish Course": (
        "Memorise the irregular verbs",
        "Write the travel diary entry",
        "Listen to the radio play",
        "Practise the job interview",
        "Correct the vocabulary test",
        "Summarise the short story",
    ),
    "Model Railway": (
        "Solder the signal wires",
        "Lay the branch line",
        "Build the station roof",
        "Plant the miniature forest",
        "Program the level crossing",
        "Repaint the freight wagons",
    ),
    "Pet Care": (
        "Wash the dog blanket",
        "Vaccinate the cat",
        "Clean the aquarium filter",
        "Buy rabbit hay",
        "Trim the parrot claws",
        "Book the kennel",
    ),
    "Charity Run": (
        "Call the sponsors",
        "Number the runner vests",
        "Set up the water stands",
        "Brief the course marshals",
        "Count the donations",
        "Thank the first aiders",
    ),
    "Photo Exhibition": (
        "Select the night pictures",
        "Frame the large prints",
        "Write the wall captions",
        "Light the side gallery",
        "Invite the local press",
        "Calibrate the printer colours",
    ),
    "Allotment Kitchen": (
        "Bottle the plum jam",
        "Dry the kitchen herbs",
        "Pickle the cucumbers",
        "Bake the sourdough loaves",
        "Label the cellar shelves",
        "Sharpen the kitchen knives",
    ),
    "Scout Camp": (
        "Waterproof the big tent",
        "Draft the menu plan",
        "Check the first aid box",
        "Carve the camp sign",
        "Rehearse the campfire songs",
        "Mark the night hike route",
    ),
    "Shop Stocktaking": (
        "Count the winter coats",
        "Return the damaged boxes",
        "Update the price labels",
        "Phone the shoe supplier",
        "Tidy the back store",
        "Test the till printer",
    ),
}
"""Project names with the tasks that may stand in them."""

EVAL_THEMES: Final[Themes] = {
    "Observatory Club": (
        "Align the telescope mount",
        "Chart the variable stars",
        "Order the solar filter",
        "Write the club newsletter",
        "Seal the dome shutter",
        "Train the new observers",
    ),
    "Boat Refit": (
        "Sand the wooden hull",
        "Service the outboard motor",
        "Sew the spare sail",
        "Renew the mooring lines",
        "Inspect the life jackets",
        "Varnish the cabin door",
    ),
    "Puppet Theatre": (
        "Carve the dragon head",
        "Write the second act",
        "Dye the stage curtain",
        "Record the thunder sounds",
        "Build the castle backdrop",
        "Rehearse the puppet dance",
    ),
    "Beekeeping": (
        "Check the brood frames",
        "Extract the spring honey",
        "Feed the young colony",
        "Melt the old wax",
        "Paint the new hives",
        "Register the apiary",
    ),
    "Village Archive": (
        "Scan the parish map",
        "Interview the retired miller",
        "Catalogue the school photographs",
        "Transcribe the market ledger",
        "Clean the glass negatives",
        "Prepare the open day",
    ),
    "Robot Contest": (
        "Assemble the gripper arm",
        "Tune the line sensor",
        "Charge the spare batteries",
        "Document the wiring plan",
        "Test the obstacle course",
        "Print the wheel hubs",
    ),
    "Winter Cabin": (
        "Split the birch logs",
        "Sweep the stove pipe",
        "Insulate the water pipe",
        "Wax the touring skis",
        "Stock the pantry shelf",
        "Replace the roof shingles",
    ),
}

PLACES: Final = (
    "Community Centre",
    "Old Town Library",
    "Riverside Workshop",
    "Home",
    "School Annex",
    "Market Hall",
    "North Station Office",
    "Botanic House",
    "Harbour Shed",
    "Town Hall Room 4",
    "Mill Lane Studio",
    "West Park Pavilion",
)
PEOPLE: Final = (
    "Ms. Nora Lindqvist",
    "Mr. Tomas Okafor",
    "Dr. Helen Vasquez",
    "Mr. Ravi Menon",
    "Ms. Ingrid Sato",
    "Mr. Paul Adeyemi",
    "Dr. Clara Novak",
    "Ms. Mei Castellan",
    "Mr. Jonas Petrov",
    "Ms. Amira Dufour",
)
BRING: Final = (
    "gloves and a bucket",
    "a notebook and two pens",
    "a tape measure",
    "the blue folder",
    "a head torch",
    "a roll of tape",
    "the spare keys",
    "a thermos of tea",
    "the member list",
    "a camera with a full battery",
)
HINTS: Final = (
    "Start early, because the light is better then.",
    "Write down what is missing for the next time.",
    "Ask for help with the heavy parts.",
    "Do the difficult part first.",
    "Leave the place as you found it.",
    "Keep the receipts.",
)
CITIES: Final = ("Lisbon", "Toronto", "Nairobi", "Osaka", "Gdansk", "Valencia", "Tampere", "Quito")
