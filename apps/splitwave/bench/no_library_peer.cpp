// What a build without oneDNN says when asked for the library peer.
#include "bench/peer.h"

namespace splitwave::bench {

Expected<std::unique_ptr<Peer>> make_library_peer(const Shape& /*shape*/, int /*threads*/) {
  return environment_error(
      "--peer library: this build found no oneDNN; install libdnnl-dev and libopenblas0-pthread, "
      "then configure and build again");
}

}  // namespace splitwave::bench
