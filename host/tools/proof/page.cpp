// Prints the proof as one HTML page with plots, which needs no other file and no script.
#include "host/tools/proof/proof.h"

#include "host/base/error.h"

#include <gshmem/gshmem.h>

#include <algorithm>
#include <cmath>

namespace gshmem::proof {
namespace {

constexpr char kHead[] = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<style>
:root { --ink: #1b1f24; --soft: #5c6670; --line: #d5dae0; --back: #fff; --on: #1f6fb2; --off: #c2571a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ed; --soft: #9aa5b1; --line: #3a424c; --back: #15191e; --on: #6cb2ee; --off: #f0965c; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back);
       max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
table { border-collapse: collapse; } td, th { padding: .15rem .8rem .15rem 0; text-align: left;
       vertical-align: top; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 500; } .verdict { font-size: 1.15rem; font-weight: 600;
       border-left: .35rem solid var(--soft); padding: .4rem .8rem; }
.works { border-color: #2e8b57; } .fails { border-color: #c23b3b; } code { font-size: .93em; }
th { white-space: nowrap; } .plots { display: flex; flex-wrap: wrap; gap: 1rem; margin-top: 2rem; } svg { width: 30rem; max-width: 100%; }
svg text { font-size: 11px; fill: var(--soft); } .axis { stroke: var(--line); fill: none; }
.on { stroke: var(--on); fill: var(--on); } .off { stroke: var(--off); fill: var(--off); }
path { fill: none !important; stroke-width: 2; } text.on, text.off { stroke: none; font-weight: 600; }
text.on { fill: var(--on); } text.off { fill: var(--off); } .wide { overflow-x: auto; }
</style>
)";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string cell(const std::string& text, const char* tag = "td") {
  return strprintf("<%s>", tag) + escaped(text) + strprintf("</%s>", tag);
}
std::string number(const std::string& text, const char* tag = "td") {
  return strprintf("<%s class=\"n\">", tag) + escaped(text) + strprintf("</%s>", tag);
}

/// One plot: a quantity by message size, both axes logarithmic, with the spread of the repeats.
class Plot {
 public:
  Plot(const Comparison& comparison, Quantity quantity, Caller caller)
      : title_(title_of(quantity) + ", by " + std::string(caller_name(caller))) {
    for (const Series& each : comparison.series) {
      if (each.quantity == quantity && each.caller == caller) series_.push_back(&each);
    }
    for (const Series* each : series_) {
      for (const Figures* figures : {&each->on, &each->off}) {
        for (const double value : figures->values) {
          if (value <= 0) continue;
          low_ = low_ == 0 ? value : std::min(low_, value);
          high_ = std::max(high_, value);
        }
      }
    }
    if (high_ > 0) set_ticks();
  }

  /// Is there a line to draw?
  [[nodiscard]] bool has_line() const { return series_.size() > 1 && high_ > 0; }

  [[nodiscard]] std::string svg() const {
    std::string out = strprintf("<svg viewBox=\"0 0 %g %g\" role=\"img\">", kWidth, kHeight);
    out += "<title>" + escaped(title_) + "</title>";
    out += strprintf("<text x=\"%g\" y=\"14\">%s</text>", kLeft, escaped(title_).c_str());
    for (const double value : ticks_) {
      out += strprintf("<path class=\"axis\" d=\"M%g %gH%g\"/>", kLeft, y(value), kWidth - kRight);
      out += strprintf("<text x=\"%g\" y=\"%g\" text-anchor=\"end\">%g</text>", kLeft - 6,
                       y(value) + 4, value);
    }
    for (const Series* each : series_) {
      out += strprintf("<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">%s</text>", x(each->bytes),
                       kHeight - 8, size_in_units(each->bytes).c_str());
    }
    return out + line("off", &Series::off) + line("on", &Series::on) + "</svg>\n";
  }

 private:
  static constexpr double kWidth = 480, kHeight = 300, kLeft = 48, kRight = 40, kTop = 28,
                          kBottom = 30;

  /// 1, 2 and 5 times powers of ten, from the last one below the values to the first one above.
  void set_ticks() {
    const int first = static_cast<int>(std::floor(std::log10(low_)));
    for (int power = first; ticks_.empty() || ticks_.back() <= high_; ++power) {
      for (const int digit : {1, 2, 5}) {
        const double tick = digit * std::pow(10, power);
        if (!ticks_.empty() && ticks_.back() > high_) break;
        if (tick < low_) ticks_.clear();
        ticks_.push_back(tick);
      }
    }
  }

  [[nodiscard]] double x(std::size_t bytes) const {
    const auto log = [](std::size_t value) { return std::log2(static_cast<double>(value)); };
    const double first = log(series_.front()->bytes), last = log(series_.back()->bytes);
    return kLeft + 14 + (log(bytes) - first) / (last - first) * (kWidth - kLeft - kRight - 28);
  }
  [[nodiscard]] double y(double value) const {
    const double part =
        std::log10(value / ticks_.front()) / std::log10(ticks_.back() / ticks_.front());
    return kHeight - kBottom - part * (kHeight - kTop - kBottom);
  }

  [[nodiscard]] std::string line(const char* name, Figures Series::*side) const {
    std::string path, marks, label;
    for (const Series* each : series_) {
      if ((each->*side).values.empty()) continue;
      const Spread all = spread((each->*side).values);
      const double at = x(each->bytes);
      path += strprintf("%s%.1f %.1f", path.empty() ? "M" : "L", at, y(all.median));
      marks += strprintf(
          "<path d=\"M%.1f %.1fV%.1f\"/><circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\">"
          "<title>%s: %s (%s .. %s)</title></circle>",
          at, y(all.least), y(all.most), at, y(all.median), size_in_units(each->bytes).c_str(),
          digits(all.median).c_str(), digits(all.least).c_str(), digits(all.most).c_str());
      label = strprintf("<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>", name, at + 10,
                        y(all.median) + 4, name);
    }
    return strprintf("<g class=\"%s\"><path d=\"%s\"/>", name, path.c_str()) + marks + "</g>" +
           label;
  }

  std::string title_;
  std::vector<const Series*> series_;
  double low_ = 0, high_ = 0;
  std::vector<double> ticks_;
};

std::string plots(const Comparison& comparison) {
  std::string out;
  for (const Quantity quantity : {Quantity::kLatency, Quantity::kBandwidth}) {
    for (const Caller caller : {Caller::kGpu, Caller::kHost}) {
      const Plot plot(comparison, quantity, caller);
      if (plot.has_line()) out += plot.svg();
    }
  }
  return out.empty() ? "" : "<div class=\"plots\">\n" + out + "</div>\n";
}

std::string side_cells(const std::vector<double>& values) {
  if (values.empty()) return number("-") + cell("");
  const Spread all = spread(values);
  return number(digits(all.median)) + cell(digits(all.least) + " .. " + digits(all.most));
}

std::string row(const std::string& what, const Series& series, const std::vector<double>& off,
                const std::vector<double>& on) {
  return "<tr>" + cell(what) + number(size_in_units(series.bytes)) +
         cell(std::string(caller_name(series.caller))) + side_cells(off) + side_cells(on) +
         number(change_text(spread(off).median, spread(on).median)) + "</tr>\n";
}

std::string figures_table(const std::string& title, const Comparison& comparison) {
  if (comparison.series.empty()) return "<h2>" + escaped(title) + "</h2>\n";
  std::string out = "<h2>" + escaped(title) + "</h2>\n<div class=\"wide\"><table><tr>";
  for (const char* name : {"quantity", "message", "called by"}) out += cell(name, "th");
  for (const char* side : {"off", "on"}) out += number(side, "th") + cell("least .. most", "th");
  out += number("change", "th") + "</tr>\n";
  for (const Series& each : comparison.series)
    out += row(title_of(each.quantity), each, each.off.values, each.on.values);
  for (const Series& each : comparison.series) {
    if (each.on.cpu.empty() && each.off.cpu.empty()) continue;
    out += row(each.quantity == Quantity::kRate ? "CPU s for 10^6 messages" : "CPU s for 1 GB",
               each, each.off.cpu, each.on.cpu);
  }
  return out + "</table></div>\n";
}

std::string pairs(const std::vector<std::pair<std::string, std::string>>& rows) {
  if (rows.empty()) return "";
  std::string out = "<table>\n";
  for (const auto& [name, text] : rows) out += "<tr>" + cell(name, "th") + cell(text) + "</tr>\n";
  return out + "</table>\n";
}

std::string verdict(const Judgement& judgement) {
  const char* const kind = judgement.outcome == Outcome::kWorks   ? "works"
                           : judgement.outcome == Outcome::kFails ? "fails"
                                                                  : "unknown";
  std::string out =
      strprintf("<p class=\"verdict %s\">", kind) + escaped(judgement.sentence) + "</p>\n";
  if (judgement.cause) {
    out += pairs({{"likely cause", judgement.cause->title},
                  {"evidence", judgement.cause->evidence},
                  {"fix", judgement.cause->fix}});
  }
  if (judgement.criteria.empty()) return out;
  out += "<h2>Criteria</h2>\n<table>\n";
  for (const Criterion& each : judgement.criteria) {
    const char* const word = each.met == Criterion::Met::kYes  ? "met"
                             : each.met == Criterion::Met::kNo ? "not met"
                                                               : "unknown";
    out += "<tr>" + cell(each.name, "th") + cell(word) + cell(each.measured) +
           cell("wanted: " + each.wanted) + "</tr>\n";
  }
  return out + "</table>\n";
}

std::string leg_text(const Leg& leg) {
  return leg.error.empty() ? leg.network : "not measured: " + leg.error;
}

/// A table of its own, and what was not measured for it.
std::string beside(const std::string& title, const Comparison& comparison) {
  std::vector<std::pair<std::string, std::string>> failures;
  for (const auto& [name, leg] :
       {std::pair{"on", &comparison.on}, std::pair{"off", &comparison.off}})
    if (!leg->error.empty()) failures.emplace_back(name, leg_text(*leg));
  return figures_table(title, comparison) + pairs(failures);
}

}  // namespace

std::string as_page(const Proof& proof) {
  const std::string title = proof.title + ", " + proof.host;
  std::string out = kHead + ("<title>" + escaped(title)) + "</title></head><body>\n<h1>" +
                    escaped(title) + "</h1>\n" + verdict(proof.judgement);
  out += plots(proof.gdr);
  auto facts = proof.place.facts;
  if (proof.gdr.has_run()) {
    facts.emplace_back("on", leg_text(proof.gdr.on));
    facts.emplace_back("off", leg_text(proof.gdr.off));
  }
  if (!proof.gdr.series.empty()) {
    facts.emplace_back("repeats", strprintf("%d, on and off alternately", proof.repeats));
    facts.emplace_back("hosts",
                       proof.gdr.one_host ? "both PEs are on this host" : "one PE each on two");
    if (const std::string threads = threads_text(proof.gdr); !threads.empty())
      facts.emplace_back("GPU threads", threads);
  }
  if (proof.gdr.modelled) facts.emplace_back("times", "of a model (GSHNIC_COSTS), not of a card");
  facts.emplace_back("by", GSHMEM_VENDOR_STRING);
  out += "<h2>Measured on</h2>\n" + pairs(facts);
  if (!proof.gdr.series.empty()) out += figures_table("Figures", proof.gdr);
  if (proof.gdrcopy) out += beside("GDRCopy", *proof.gdrcopy);
  if (proof.all_pairs) out += beside(pairs_title(*proof.all_pairs), *proof.all_pairs);
  return out + "</body></html>\n";
}

}  // namespace gshmem::proof
