// The memory that a stream's decode calls read: KV pools, queries, and index lists for every point,
// batch and rotation set. Owns StreamInputs; host memory, in four blocks, so that an executor on
// another device can mirror them. Content is random and seeded; the lists follow the plan's
// locality. Called by the decode executor alone.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "experiment/run_spec.h"
#include "formats/host_buffer.h"
#include "splitwave/problem.h"
#include "splitwave/status.h"

namespace splitwave::experiment {

inline constexpr std::int64_t k_pool_bytes_max = std::int64_t{1} << 30;  // of one cache

class StreamInputs {
 public:
  // cache_bytes: the last-level cache that a cold call must not find its rows in. A plan whose
  // largest batch does not fit k_pool_bytes_max is refused.
  [[nodiscard]] static Expected<StreamInputs> make(const RunSpec& run, int stream,
                                                   std::int64_t cache_bytes);

  [[nodiscard]] const ProblemSpec& spec() const { return spec_; }

  // Disjoint index sets of a point: 1 when warm; when cold, as many as together exceed twice the
  // cache (at most measure::k_rotation_copies_max, and what k_pool_bytes_max allows).
  [[nodiscard]] int sets(int point) const { return points_[static_cast<std::size_t>(point)].sets; }

  // Host pointers; out and lse are the caller's to set. 0 <= set < sets(point).
  [[nodiscard]] DecodeCall call(int point, int batch, int set) const;

  // Bytes of KV rows that one call of the point reads, on average over its batches.
  [[nodiscard]] double touched_bytes(int point) const {
    return points_[static_cast<std::size_t>(point)].touched_bytes;
  }

  // Everything that call() points into: main pool, extra pool, queries, lists.
  [[nodiscard]] std::array<std::span<const std::uint8_t>, 4> blocks() const;

 private:
  struct Pool {
    HostBuffer bytes;
    int page_size = 1;
    std::int64_t pages = 0;
    [[nodiscard]] CacheView view(KvFormat format) const;
  };
  struct Point {
    int rows = 0;
    int sets = 1;
    double touched_bytes = 0;
    std::int64_t first_element = 0;  // of its lists; sets fastest, then batches
  };
  class Builder;

  StreamInputs() = default;
  [[nodiscard]] std::int64_t list_elements(int rows) const;  // int32 of one set

  ProblemSpec spec_;
  Pool main_, extra_;
  HostBuffer q_, lists_;
  std::vector<Point> points_;
};

}  // namespace splitwave::experiment
