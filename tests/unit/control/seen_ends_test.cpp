#include "host/control/seen_ends.h"

#include <catch2/catch.hpp>

using namespace gshmem::control;

namespace {

SeenEnds::Time at(int ms) { return SeenEnds::Time(std::chrono::milliseconds(ms)); }

}  // namespace

TEST_CASE("of_deaths_the_first_that_anyone_saw_is_reported") {
  SeenEnds ends;
  ends.add({.pe = 1, .event = PeerEvent::kDied, .seen = at(20), .due = at(120)});
  ends.add({.pe = 2, .event = PeerEvent::kUnreachable, .seen = at(30), .due = at(130)});
  CHECK_FALSE(ends.take_due(at(119)));
  ends.add({.pe = 2, .event = PeerEvent::kUnreachable, .seen = at(10), .due = at(140)});
  ends.add({.pe = 2, .event = PeerEvent::kUnreachable, .seen = at(40), .due = at(145)});
  CHECK(ends.next_due() == at(120));
  const auto first = ends.take_due(at(120));
  REQUIRE(first);
  CHECK(first->pe == 2);
  CHECK(first->event == PeerEvent::kUnreachable);
  CHECK(ends.take_due(at(120))->pe == 1);
  CHECK_FALSE(ends.take_due(at(999)));
  CHECK_FALSE(ends.next_due());
}

TEST_CASE("a_departure_waits_for_a_death_that_is_seen_later") {
  SeenEnds ends;
  ends.add({.pe = 1, .event = PeerEvent::kLeft, .seen = at(0), .due = at(500)});
  ends.add({.pe = 2, .event = PeerEvent::kDied, .seen = at(450), .due = at(550)});
  CHECK_FALSE(ends.has_death(1));
  CHECK(ends.has_death(2));
  CHECK_FALSE(ends.take_due(at(549)));
  CHECK(ends.take_due(at(560))->pe == 2);
  CHECK(ends.take_due(at(560))->pe == 1);
}

TEST_CASE("an_end_that_is_explained_is_not_reported") {
  SeenEnds ends;
  ends.add({.pe = 1, .event = PeerEvent::kDied, .seen = at(0), .due = at(100)});
  ends.drop(1);
  CHECK(ends.size() == 0);
  CHECK_FALSE(ends.take_due(at(999)));
}
