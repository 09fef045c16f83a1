"""The map: its places are found, and ways between them are the fastest ones."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urlencode

import pytest

from env_servers.environments.webarena.sites.embedded import embedded_network, new_world
from env_servers.environments.webarena.sites.map import PLACES, Place
from env_servers.environments.webarena.sites.map.places import meters_between
from env_servers.environments.webarena.sites.map.roads import Engine, Road, RoadGraph, Surface
from env_servers.environments.webarena.sites.map.towns import road_graph
from env_servers.environments.webarena.sites.world import World
from tests.env_servers.environments.webarena.sites.browsing import Visitor


@pytest.fixture(scope="module")
def world() -> World:
    return new_world()


@pytest.fixture
def visitor(world: World) -> Visitor:
    return Visitor(embedded_network(), world, "http://map.test/")


def place_of(world: World, name: str) -> Place:
    (place,) = world[PLACES].where(name=name)
    return place


def test_there_are_two_thousand_places_each_with_a_name_of_its_own(world: World) -> None:
    places = [*world[PLACES]]
    assert len(places) >= 2_000
    assert len({place.name for place in places}) == len(places)
    assert len({place.town for place in places}) == 28


def results(visitor: Visitor, query: str) -> list[str]:
    visitor.get(f"/search?{urlencode({'query': query})}")
    return [unescape(name) for name in re.findall(r'<a href="/node/\d+">([^<]+)', visitor.text)]


def test_a_place_is_found_by_its_name_its_address_and_its_coordinates(
    world: World, visitor: Visitor
) -> None:
    place = place_of(world, "Denver University")
    for query in (place.name, place.full_name, place.name.upper(), place.address):
        assert results(visitor, query)[0] == place.full_name
    assert place.full_name in results(visitor, f"{place.latitude}, {place.longitude}")


def test_kinds_near_a_place_come_nearest_first(world: World, visitor: Visitor) -> None:
    start = place_of(world, "Denver University")
    names = results(visitor, "coffee near Denver University")
    found = [place_of(world, name.split(",")[0]) for name in names]
    assert {place.kind for place in found} == {"cafe"}
    distances = [meters_between(place.point, start.point) for place in found]
    assert distances == sorted(distances)
    assert all(", Miami, " in name for name in results(visitor, "pharmacies in Miami"))


def test_a_search_without_results_says_so(visitor: Visitor) -> None:
    assert results(visitor, "qqqqq") == []
    assert "No results found" in visitor.text


def test_a_place_page_tells_address_coordinates_and_tags(world: World, visitor: Visitor) -> None:
    place = place_of(world, "Boston International Airport")
    visitor.get(f"/node/{place.id}")
    for text in (place.street, place.postcode, f"{place.latitude:.5f}", dict(place.tags)["phone"]):
        assert text in visitor.text
    assert visitor.get("/node/5").status == 404


def test_directions_tell_distance_time_and_turns(visitor: Visitor) -> None:
    visitor.get("/directions").submit(
        "/directions",
        engine=Engine.FOOT.value,
        route_from="Denver University",
        route_to="Denver Police Station",
    )
    assert re.search(r"Distance: \d+m\. Time: 0:\d\d\.", visitor.text)
    assert "Start at Denver University" in visitor.text
    assert "Reach Denver Police Station" in visitor.text


def test_directions_to_an_unknown_place_say_so(visitor: Visitor) -> None:
    visitor.get("/directions?route_from=Denver+University&route_to=qqqqq")
    assert "couldn't locate 'qqqqq'" in unescape(visitor.text)


def test_every_town_is_reached_from_every_other_by_every_means() -> None:
    graph = road_graph()
    for engine in Engine:
        assert all(graph.route(0, 64 * town, engine) is not None for town in range(28))


def test_the_fastest_way_is_taken_and_walkers_keep_off_motorways() -> None:
    points = [(0.0, 0.0), (0.0, 0.1), (0.0, 0.2)]
    roads = [
        [Road(2, "Motorway", 30_000, Surface.MOTORWAY), Road(1, "Lane", 12_000, Surface.STREET)],
        [Road(2, "Lane", 12_000, Surface.STREET)],
        [],
    ]
    graph = RoadGraph(points, roads)
    by_car, on_foot = graph.route(0, 2, Engine.CAR), graph.route(0, 2, Engine.FOOT)
    assert by_car is not None
    assert on_foot is not None
    assert [leg.name for leg in by_car.legs] == ["Motorway"]
    assert [(leg.name, leg.meters, leg.heading) for leg in on_foot.legs] == [
        ("Lane", 24_000, "east")
    ]
    assert graph.route(2, 0, Engine.CAR) is None


@pytest.mark.parametrize(
    "path",
    [
        "/search",
        "/search?query=%00&page=-3",
        "/search?query=999,999",
        "/search?query=near&page=9e9",
        "/search?query=in+in+in",
        "/search?query=%2C%2C",
        "/directions?engine=rocket&route_from=a&route_to=b",
        "/directions?route_from=1,1&route_to=91,181",
        "/node/999999999999999999999",
        "/node/x",
        "/no/such/page",
    ],
)
def test_bad_input_is_a_page(visitor: Visitor, path: str) -> None:
    assert visitor.get(path).status in (200, 404)
