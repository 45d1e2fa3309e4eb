// Both runs on one loop; a difference is found as soon as its turn ends.
#include "load/canary.h"

#include <algorithm>
#include <chrono>

#include "load/canary_turn.h"
#include "load/http_loop.h"
#include "stats/distributions.h"

namespace splitwave::load {
namespace {

constexpr int k_turn_wait_ms = 100;
constexpr int k_errors_kept_max = 5;
constexpr int k_leaks_kept_max = 20;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

int count_turns(const std::vector<CanarySession>& sessions) {
  int turns = 0;
  for (const CanarySession& s : sessions) turns += static_cast<int>(s.turns.size());
  return turns;
}

// Sends one turn's request; on_output gets the answer or what went wrong.
void send_turn(HttpLoop* loop, const CanarySession& session, std::string request,
               const CanaryOptions& options,
               std::function<void(const Expected<TurnOutput>&)> on_output) {
  const auto body = std::make_shared<std::string>();
  loop->start(
      {options.target.url + "/v1/chat/completions", std::move(request), options.target.api_key,
       options.request_timeout_s},
      [body](std::string_view bytes) { *body += bytes; },
      [body, &session, then = std::move(on_output)](const HttpEnd& end) {
        if (!end.error.empty()) return then(environment_error(end.error));
        if (end.status != 200) {
          return then(environment_error("HTTP " + std::to_string(end.status) + ": " +
                                        body->substr(0, 200)));
        }
        then(read_canary_answer(*body, session));
      });
}

// Where two outputs first differ, on the finest level that both have; nullopt: they are equal.
std::optional<Divergence> compare(const TurnOutput& solo, const TurnOutput& crowd) {
  Divergence d;
  const auto at = [](const auto& a, const auto& b) {
    return static_cast<int>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                            a.begin());
  };
  const auto item = [](const auto& list, int i) -> std::string {
    if (i >= static_cast<int>(list.size())) return "the end";
    if constexpr (std::is_same_v<std::decay_t<decltype(list[0])>, std::string>) {
      return list[static_cast<std::size_t>(i)];
    } else {
      return std::to_string(list[static_cast<std::size_t>(i)]);
    }
  };
  const int token = at(solo.tokens, crowd.tokens);
  if (solo.logit_hashes != crowd.logit_hashes) {
    d.level = "logits";
    d.step = at(solo.logit_hashes, crowd.logit_hashes);
    d.solo = item(solo.logit_hashes, d.step);
    d.crowd = item(crowd.logit_hashes, d.step);
    // Equal logits and another token before that: the sampler.
    if (solo.tokens == crowd.tokens || token >= d.step) return d;
  }
  if (solo.tokens != crowd.tokens) {
    d.level = "tokens";
    d.step = token;
    d.solo = item(solo.tokens, token);
    d.crowd = item(crowd.tokens, token);
    return d;
  }
  if (solo.text == crowd.text && solo.prompt_tokens == crowd.prompt_tokens) return std::nullopt;
  d.level = "text";
  d.step = at(solo.text, crowd.text);
  d.solo = solo.text.substr(0, 200);
  d.crowd = crowd.text.substr(0, 200);
  return d;
}

std::int64_t differing(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    count += i >= a.size() || i >= b.size() || a[i] != b[i] ? 1 : 0;
  }
  return count;
}

// The crowd run: lanes that each replay one session after the other.
class Crowd {
 public:
  Crowd(const std::vector<CanarySession>& sessions, const SoloRun& solo,
        const CanaryOptions& options, const CanaryProgress& progress)
      : sessions_(sessions),
        solo_(solo),
        options_(options),
        progress_(progress),
        corrupted_(sessions.size()),
        other_tokens_(sessions.size()),
        unjudged_(sessions.size()),
        shown_(sessions.size()) {
    const auto count = static_cast<int>(sessions.size());
    // Whole rounds: each session has the same number of replays.
    const int rounds = std::max(1, (options.concurrency + count - 1) / count);
    for (int round = 0; round < rounds; ++round) {
      for (int s = 0; s < count; ++s) queue_.push_back(s);
    }
    all_ = rounds * count_turns(sessions);
  }

  CanaryReport run() {
    const auto begin = Clock::now();
    const auto lanes =
        std::min<std::size_t>(static_cast<std::size_t>(options_.concurrency), queue_.size());
    for (std::size_t lane = 0; lane < lanes; ++lane) next_session();
    while (loop_.active() > 0 && !stopped_) loop_.turn(k_turn_wait_ms);
    loop_.abandon();
    report_.crowd_s = seconds_since(begin);
    return finish();
  }

 private:
  void next_session() {
    if (stopped_ || next_ == queue_.size()) return;
    send(queue_[next_++], 0);
  }

  void send(int session, std::size_t turn) {
    const auto s = static_cast<std::size_t>(session);
    send_turn(&loop_, sessions_[s], canary_request(sessions_[s], solo_.sessions[s], turn, options_),
              options_, [this, session, turn](const Expected<TurnOutput>& output) {
                judge(session, turn, output);
              });
  }

  // The turn again, on the solo run's tokens.
  void send_forced(int session, std::size_t turn) {
    const auto s = static_cast<std::size_t>(session);
    const TurnOutput& solo = solo_.sessions[s][turn];
    send_turn(&loop_, sessions_[s],
              canary_request(sessions_[s], solo_.sessions[s], turn, options_, solo.tokens),
              options_, [this, session, turn, &solo](const Expected<TurnOutput>& output) {
                if (output) {
                  ++report_.forced_turns;
                  report_.forced_steps_differing +=
                      differing(solo.logit_hashes, output->logit_hashes);
                }
                go_on(session, turn);
              });
  }

  void go_on(int session, std::size_t turn) {
    if (turn + 1 == sessions_[static_cast<std::size_t>(session)].turns.size()) {
      next_session();
    } else if (!stopped_) {
      send(session, turn + 1);
    }
  }

  void judge(int session, std::size_t turn, const Expected<TurnOutput>& output) {
    const auto s = static_cast<std::size_t>(session);
    ++report_.turns;
    if (progress_) progress_(++done_, all_);
    if (!output) {
      unjudged_[s] = true;
      if (std::ssize(report_.errors) < k_errors_kept_max) {
        report_.errors.push_back(sessions_[s].id + ": " + output.error().message);
      }
      return next_session();
    }
    const TurnOutput& solo = solo_.sessions[s][turn];
    report_.steps += std::max(std::ssize(output->tokens), std::ssize(output->logit_hashes));
    report_.crowd_tool_calls += output->tool_calls;
    report_.crowd_bad_tool_calls += output->bad_tool_calls;
    shown_[s] += output->text + "\n";
    const auto difference = compare(solo, *output);
    if (!difference) return go_on(session, turn);
    note(session, turn, solo, *output, *difference);
    if (!stopped_ && !output->tokens.empty() && !output->logit_hashes.empty()) {
      return send_forced(session, turn);
    }
    go_on(session, turn);
  }

  void note(int session, std::size_t turn, const TurnOutput& solo, const TurnOutput& crowd,
            Divergence difference) {
    const auto s = static_cast<std::size_t>(session);
    corrupted_[s] = true;
    if (solo.tokens != crowd.tokens || solo.text != crowd.text) other_tokens_[s] = true;
    difference.session = session;
    difference.session_id = sessions_[s].id;
    difference.turn = static_cast<int>(turn);
    auto& first = report_.first_divergence;
    const auto place = [](const Divergence& d) { return std::tuple(d.session, d.turn, d.step); };
    if (!first || place(difference) < place(*first)) first = std::move(difference);
    if (options_.stops_at_first) stopped_ = true;
  }

  CanaryReport finish();
  void scan_for_leaks();

  const std::vector<CanarySession>& sessions_;
  const SoloRun& solo_;
  const CanaryOptions& options_;
  const CanaryProgress& progress_;
  std::vector<int> queue_;  // sessions, in the order of their replays
  std::size_t next_ = 0;
  int done_ = 0;
  int all_ = 0;
  bool stopped_ = false;
  std::vector<bool> corrupted_, other_tokens_, unjudged_;
  std::vector<std::string> shown_;  // every output of a session
  CanaryReport report_;
  HttpLoop loop_;  // last: its callbacks use what stands above
};

// An identifier in the output of another session came from there: it is 20 random letters.
void Crowd::scan_for_leaks() {
  for (std::size_t s = 0; s < sessions_.size(); ++s) {
    for (std::size_t other = 0; other < sessions_.size(); ++other) {
      if (other == s || shown_[s].find(sessions_[other].identifier) == std::string::npos) continue;
      if (std::ssize(report_.leaks) == k_leaks_kept_max) return;
      report_.leaks.push_back(sessions_[s].id + " shows the identifier of " + sessions_[other].id);
    }
  }
}

CanaryReport Crowd::finish() {
  CanaryReport& r = report_;
  r.concurrency = options_.concurrency;
  for (std::size_t s = 0; s < sessions_.size(); ++s) {
    r.unjudged += unjudged_[s] ? 1 : 0;
    r.other_tokens += other_tokens_[s] && !sessions_[s].is_needle ? 1 : 0;
    (sessions_[s].is_needle ? r.corrupted_needles : r.corrupted) += corrupted_[s] ? 1 : 0;
    r.sessions += sessions_[s].is_needle ? 0 : 1;
  }
  r.upper_bound_95 = stats::binomial_upper_bound(r.corrupted, r.sessions);
  r.solo_s = solo_.seconds;
  r.level = "text";
  for (std::size_t s = 0; s < sessions_.size(); ++s) {
    const CanarySession& session = sessions_[s];
    std::string solo_text;
    for (const TurnOutput& turn : solo_.sessions[s]) {
      if (!turn.tokens.empty() && r.level == "text") r.level = "tokens";
      if (!turn.logit_hashes.empty()) r.level = "logits";
      // Every replay adds to the crowd's counts: so does the solo run.
      r.solo_tool_calls += turn.tool_calls;
      r.solo_bad_tool_calls += turn.bad_tool_calls;
      solo_text += turn.text + "\n";
    }
    const bool solo_found = solo_text.find(session.expected) != std::string::npos;
    const bool crowd_found = shown_[s].find(session.expected) != std::string::npos;
    (session.is_needle ? r.solo_needles : r.solo_echoes) += solo_found ? 1 : 0;
    (session.is_needle ? r.crowd_needles : r.crowd_echoes) += crowd_found ? 1 : 0;
  }
  const auto rounds = static_cast<int>(queue_.size() / sessions_.size());
  r.solo_tool_calls *= rounds;
  r.solo_bad_tool_calls *= rounds;
  scan_for_leaks();
  return r;
}

}  // namespace

bool CanaryReport::passed() const {
  return corrupted == 0 && corrupted_needles == 0 && unjudged == 0 && leaks.empty() &&
         crowd_bad_tool_calls <= solo_bad_tool_calls && crowd_echoes >= solo_echoes &&
         crowd_needles >= solo_needles;
}

Expected<SoloRun> run_solo(const std::vector<CanarySession>& sessions, const CanaryOptions& options,
                           const CanaryProgress& progress) {
  const auto begin = Clock::now();
  SoloRun solo;
  HttpLoop loop;
  const int all = count_turns(sessions);
  int done = 0;
  for (const CanarySession& session : sessions) {
    std::vector<TurnOutput> outputs;
    for (std::size_t turn = 0; turn < session.turns.size(); ++turn) {
      Expected<TurnOutput> output = environment_error("no answer");
      send_turn(&loop, session, canary_request(session, outputs, turn, options), options,
                [&](const Expected<TurnOutput>& o) { output = o; });
      while (loop.active() > 0) loop.turn(k_turn_wait_ms);
      if (!output) {
        return environment_error("solo run, " + session.id + ", turn " + std::to_string(turn) +
                                 ": " + output.error().message);
      }
      outputs.push_back(std::move(*output));
      if (progress) progress(++done, all);
    }
    solo.sessions.push_back(std::move(outputs));
  }
  solo.seconds = seconds_since(begin);
  return solo;
}

Expected<CanaryReport> run_crowd(const std::vector<CanarySession>& sessions, const SoloRun& solo,
                                 const CanaryOptions& options, const CanaryProgress& progress) {
  if (options.concurrency < 1 || options.concurrency > k_concurrency_in_flight_max) {
    return bad_input("concurrency: " + std::to_string(options.concurrency) + "; from 1 to " +
                     std::to_string(k_concurrency_in_flight_max));
  }
  return Crowd(sessions, solo, options, progress).run();
}

}  // namespace splitwave::load
