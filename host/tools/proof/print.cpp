// Prints the proof as text, and as JSON for programs.
#include "host/tools/proof/proof.h"

#include "host/base/error.h"

#include <gshmem/gshmem.h>

#include <nlohmann/json.hpp>

namespace gshmem::proof {
namespace {

using Json = nlohmann::ordered_json;

std::string spread_text(const std::vector<double>& values) {
  if (values.empty()) return strprintf("%8s  %-18s", "-", "");
  const Spread all = spread(values);
  const std::string range = digits(all.least) + " .. " + digits(all.most);
  return strprintf("%8s  %-18s", digits(all.median).c_str(), range.c_str());
}

std::string line_of(const std::string& what, const std::vector<double>& off,
                    const std::vector<double>& on) {
  std::string line = "  " + strprintf("%-20s", what.c_str()) + spread_text(off) + spread_text(on) +
                     change_text(spread(off).median, spread(on).median);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string what_of(const Series& series) {
  return strprintf("%s by %s", size_in_units(series.bytes).c_str(),
                   std::string(caller_name(series.caller)).c_str());
}

std::string heading(const std::string& title, const char* off, const char* on) {
  return strprintf("\n%-22s%8s  %-18s%8s  %-18s%s\n", title.c_str(), off, "least .. most", on,
                   "least .. most", "change");
}

/// A table for each quantity that was measured, and one for the CPU.
std::string tables(const Comparison& comparison, const char* off, const char* on) {
  std::string out, cpu;
  for (const Quantity quantity :
       {Quantity::kLatency, Quantity::kBandwidth, Quantity::kRate, Quantity::kLoad,
        Quantity::kStore, Quantity::kOnePair, Quantity::kAllPairs}) {
    std::string lines;
    for (const Series& series : comparison.series) {
      if (series.quantity != quantity) continue;
      lines += line_of(what_of(series), series.off.values, series.on.values);
      if (!series.off.cpu.empty() || !series.on.cpu.empty())
        cpu += line_of(what_of(series), series.off.cpu, series.on.cpu);
    }
    if (!lines.empty()) out += heading(title_of(quantity), off, on) + lines;
  }
  if (!cpu.empty()) out += heading("CPU s per GB, per M", off, on) + cpu;
  return out;
}

std::string fact_line(const std::string& name, const std::string& text) {
  return strprintf("  %-15s %s\n", name.c_str(), text.c_str());
}

std::string legs(const Comparison& comparison) {
  const auto text = [](const Leg& leg) {
    return leg.error.empty() ? leg.network : "not measured: " + leg.error;
  };
  return fact_line("on", text(comparison.on)) + fact_line("off", text(comparison.off));
}

std::string failures(const Comparison& comparison) {
  std::string out;
  for (const auto& [name, leg] :
       {std::pair{"on", &comparison.on}, std::pair{"off", &comparison.off}})
    if (!leg->error.empty()) out += fact_line(name, "not measured: " + leg->error);
  return out;
}

std::string criteria_text(const Judgement& judgement) {
  std::string out = judgement.criteria.empty() ? "" : "\n";
  for (const Criterion& each : judgement.criteria) {
    const char* const word = each.met == Criterion::Met::kYes  ? "ok"
                             : each.met == Criterion::Met::kNo ? "FAILED"
                                                               : "?";
    out += strprintf("  %-7s %-19s %s (wanted: %s)\n", word, each.name.c_str(),
                     each.measured.c_str(), each.wanted.c_str());
  }
  out += "\n" + judgement.sentence + "\n";
  if (judgement.cause) {
    const Cause& cause = *judgement.cause;
    out += fact_line("likely cause", cause.title + " [" + cause.name + "]") +
           fact_line("evidence", cause.evidence) + fact_line("fix", cause.fix);
  }
  return out;
}

Json json_of(const Figures& figures) {
  const Spread all = spread(figures.values);
  Json json = {
      {"median", all.median}, {"min", all.least}, {"max", all.most}, {"values", figures.values}};
  if (!figures.cpu.empty()) json["cpu_seconds"] = figures.cpu;
  return json;
}

Json json_of(const Leg& leg) {
  Json json = {{"network", leg.network}};
  if (!leg.error.empty()) json["error"] = leg.error;
  return json;
}

Json json_of(const Comparison& comparison) {
  constexpr const char* kWords[] = {"latency_us",    "bandwidth_GB_s", "rate_M_s",      "load_us",
                                    "staged_put_us", "one_pair_GB_s",  "all_pairs_GB_s"};
  Json series = Json::array();
  for (const Series& each : comparison.series) {
    series.push_back({{"quantity", kWords[static_cast<std::size_t>(each.quantity)]},
                      {"caller", caller_name(each.caller)},
                      {"bytes", each.bytes},
                      {"on", json_of(each.on)},
                      {"off", json_of(each.off)}});
  }
  return {{"on", json_of(comparison.on)},
          {"off", json_of(comparison.off)},
          {"one_host", comparison.one_host},
          {"modelled", comparison.modelled},
          {"blocks", comparison.blocks},
          {"pairs", comparison.pairs},
          {"series", series}};
}

Json json_of(const Criterion& criterion) {
  Json met;  // null: unknown
  if (criterion.met != Criterion::Met::kUnknown) met = criterion.met == Criterion::Met::kYes;
  return {{"name", criterion.name},
          {"measured", criterion.measured},
          {"wanted", criterion.wanted},
          {"met", met}};
}

}  // namespace

std::string as_text(const Proof& proof) {
  std::string out =
      std::string(GSHMEM_VENDOR_STRING) + ", " + proof.title + ", " + proof.host + "\n";
  for (const auto& [name, text] : proof.place.facts) out += fact_line(name, text);
  const Comparison& gdr = proof.gdr;
  if (gdr.has_run()) out += legs(gdr);
  if (!gdr.series.empty()) {
    out += fact_line("repeats", strprintf("%d, on and off alternately; %s%s", proof.repeats,
                                          gdr.one_host ? "both PEs are on this host"
                                                       : "the PEs are on two hosts",
                                          gdr.modelled ? "; times of a model (GSHNIC_COSTS)" : ""));
    if (const std::string threads = threads_text(gdr); !threads.empty())
      out += fact_line("GPU threads", threads);
    out += tables(gdr, "off", "on");
  }
  if (proof.gdrcopy)
    out += "\nGDRCopy\n" + failures(*proof.gdrcopy) + tables(*proof.gdrcopy, "off", "on");
  if (proof.all_pairs)
    out += "\n" + pairs_title(*proof.all_pairs) + "\n" + failures(*proof.all_pairs) +
           tables(*proof.all_pairs, "off", "on");
  return out + criteria_text(proof.judgement);
}

std::string as_json(const Proof& proof) {
  constexpr const char* kOutcomes[] = {"works", "fails", "unknown"};
  const Judgement& judgement = proof.judgement;
  Json json = {{"schema", 1},
               {"verdict", kOutcomes[judgement.status()]},
               {"sentence", judgement.sentence},
               {"cause", nullptr},
               {"criteria", Json::array()},
               {"title", proof.title},
               {"host", proof.host},
               {"repeats", proof.repeats},
               {"facts", Json::object()},
               {"gdrcopy", nullptr},
               {"all_pairs", nullptr},
               {"link_GB_s", proof.place.link_gb_s}};
  if (judgement.cause) {
    json["cause"] = {{"row", judgement.cause->name},
                     {"title", judgement.cause->title},
                     {"evidence", judgement.cause->evidence},
                     {"fix", judgement.cause->fix}};
  }
  for (const Criterion& each : judgement.criteria) json["criteria"].push_back(json_of(each));
  for (const auto& [name, text] : proof.place.facts) json["facts"][name] = text;
  json["gdr"] = json_of(proof.gdr);
  if (proof.gdrcopy) json["gdrcopy"] = json_of(*proof.gdrcopy);
  if (proof.all_pairs) json["all_pairs"] = json_of(*proof.all_pairs);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gshmem::proof
