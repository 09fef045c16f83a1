"""The film functions as agents are told of them.

Names, parameters and results are the original's interface, the words are not. `check_valid_actions`
and `finish` are the same in all tool environments.
"""

from __future__ import annotations

from typing import Final

from env_servers.sdk import Parameter
from env_servers.toolkit.tool_calls import CHECK_VALID_ACTIONS, FINISH, Tool, ToolSet

__all__ = ["TOOLS"]

_MOVIE: Final = (Parameter("movie_id", "string", "Id of the movie, as a search returned it."),)
_PERSON: Final = (Parameter("person_id", "string", "Id of the person, as a search returned it."),)

TOOLS: Final = ToolSet(
    (
        Tool(
            "get_search_movie",
            "Find a movie by its name; only the best match is returned.",
            "A list with one entry: id, overview and title.",
            (Parameter("movie_name", "string", "What the movie is called."),),
        ),
        Tool(
            "get_movie_details",
            "Look up the main facts of a movie.",
            "title, budget, genres, revenue, vote_average and release_date.",
            _MOVIE,
        ),
        Tool(
            "get_movie_production_companies",
            "Look up which companies produced a movie.",
            "production_companies, each with id, logo_path, name and origin_country.",
            _MOVIE,
        ),
        Tool(
            "get_movie_production_countries",
            "Look up in which countries a movie was produced.",
            "production_countries, each with iso_3166_1 and name.",
            _MOVIE,
        ),
        Tool(
            "get_movie_cast",
            "Look up who acts in a movie: the first ten of the cast.",
            "cast, each with id, name and character.",
            _MOVIE,
        ),
        Tool(
            "get_movie_crew",
            "Look up who made a movie: directors, producers and writers first, about ten in all.",
            "crew, each with id, name and job.",
            _MOVIE,
        ),
        Tool(
            "get_movie_keywords",
            "Look up the keywords that a movie is filed under.",
            "keywords, a list of strings.",
            _MOVIE,
        ),
        Tool(
            "get_search_person",
            "Find a person by name; only the best match is returned.",
            "A list with one entry: id and name. Empty where nobody is found.",
            (Parameter("person_name", "string", "What the person is called."),),
        ),
        Tool(
            "get_person_details",
            "Look up the main facts of a person.",
            "name, biography, birthday and place_of_birth.",
            _PERSON,
        ),
        Tool(
            "get_person_cast",
            "Look up what a person played: the first ten roles in movies.",
            "cast, each with id and title of the movie, and character.",
            _PERSON,
        ),
        Tool(
            "get_person_crew",
            "Look up what else a person did for movies: the first ten jobs.",
            "crew, each with id and title of the movie, and job.",
            _PERSON,
        ),
        Tool(
            "get_person_external_ids",
            "Look up under what ids a person is known elsewhere.",
            "imdb_id, facebook_id, instagram_id and twitter_id.",
            _PERSON,
        ),
        Tool(
            "get_movie_alternative_titles",
            "Look up the other titles of a movie.",
            "id, and titles, each with iso_3166_1 (a country), title and type.",
            _MOVIE,
        ),
        Tool(
            "get_movie_translation",
            "Look up a movie's overview in other languages.",
            "id, and translations, each with its country, language and data (with overview).",
            _MOVIE,
        ),
        CHECK_VALID_ACTIONS,
        FINISH,
    ),
    hints=(
        "Ids of movies and people come from get_search_movie and get_search_person, or from what "
        "another tool returned; never make one up.",
        "When you know the answer, call finish with it.",
    ),
    example=(
        "I want to know when the movie came out, and its id is the first thing that takes.",
        "get_search_movie",
        {"movie_name": "The Silver Compass"},
    ),
)
"""All tools, in the order in which the original lists them."""
