#include "host/control/unexplained_disconnects.h"

#include <catch2/catch.hpp>

using namespace gshmem::control;

namespace {

UnexplainedDisconnects::Time at(int ms) {
  return UnexplainedDisconnects::Time(std::chrono::milliseconds(ms));
}

}  // namespace

TEST_CASE("the_first_death_that_any_pe_saw_is_reported") {
  UnexplainedDisconnects ends;
  ends.add({.pe = 2, .event = PeerEvent::kUnreachable, .due = at(110)});
  ends.add({.pe = 1, .event = PeerEvent::kDied, .due = at(120)});
  CHECK(ends.size() == 2);
  CHECK_FALSE(ends.take_due(at(109)));
  ends.add({.pe = 2, .event = PeerEvent::kDied, .due = at(140)});
  CHECK(ends.size() == 2);
  CHECK(ends.next_due() == at(110));
  const auto first = ends.take_due(at(120));
  REQUIRE(first);
  CHECK(first->pe == 2);
  CHECK(first->event == PeerEvent::kUnreachable);
  CHECK(ends.take_due(at(120))->pe == 1);
  CHECK_FALSE(ends.take_due(at(999)));
  CHECK_FALSE(ends.next_due());
}

TEST_CASE("a_departure_waits_for_a_death_that_is_seen_later") {
  UnexplainedDisconnects ends;
  ends.add({.pe = 1, .event = PeerEvent::kLeft, .due = at(500)});
  ends.add({.pe = 2, .event = PeerEvent::kDied, .due = at(550)});
  CHECK_FALSE(ends.has_death(1));
  CHECK(ends.has_death(2));
  CHECK_FALSE(ends.take_due(at(549)));
  CHECK(ends.take_due(at(560))->pe == 2);
  CHECK(ends.take_due(at(560))->pe == 1);
}

TEST_CASE("an_end_that_is_explained_is_not_reported") {
  UnexplainedDisconnects ends;
  ends.add({.pe = 1, .event = PeerEvent::kDied, .due = at(100)});
  ends.drop(1);
  CHECK(ends.size() == 0);
  CHECK_FALSE(ends.take_due(at(999)));
}
