// The cache writes of a whole call, row by row on the host. Owns which rows are padded and where a
// row lies; what its bytes are is ops_rows.h's. Reference and CPU path are the same bytes by
// contract.
#pragma once

#include "formats/ops_rows.h"
#include "splitwave/ops.h"

namespace splitwave {

void reference_write_kv(const KvWriteCall& call);
void reference_write_indexer_keys(const IndexerKeyWriteCall& call);
void reference_prepare_indexer_queries(const IndexerQueryCall& call);

// True if the row takes part: its slot lies in the pool and its position in the table, if there is
// one.
[[nodiscard]] bool row_is_live(const RopeTable& table, const std::int32_t* positions, int row);
[[nodiscard]] bool slot_is_live(const WritableCacheView& cache, std::int64_t slot);

}  // namespace splitwave
