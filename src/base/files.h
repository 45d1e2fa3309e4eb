// Whole files in and out. Owns read_file (bounded) and write_file, which leaves either the complete
// new file or what was there before: temporary name, flush, rename. Errors name the path and a
// remedy. Called by everything that keeps records; never by kernels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "splitwave/status.h"

namespace splitwave {

// bad_input when the file is missing, is no regular file or is longer than bytes_max.
[[nodiscard]] Expected<std::string> read_file(const std::string& path, std::int64_t bytes_max);

// environment when the folder is read-only, the disk is full or a limit is hit; the temporary file
// is removed and an existing file at path is untouched.
[[nodiscard]] Status write_file(const std::string& path, std::string_view bytes);

// Creates the folder (not its parents) unless it exists; environment when that fails.
[[nodiscard]] Status make_folder(const std::string& path);

}  // namespace splitwave
