// POSIX calls rather than iostreams: errno says why, and the data is on the disk before the rename.
#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace splitwave {
namespace {

std::string reason(int error) {
  const std::string text = std::strerror(error);
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return text + ": free some space or choose another folder";
    case EFBIG:
      return text + ": raise the file size limit (ulimit -f)";
    case EACCES:
    case EPERM:
    case EROFS:
      return text + ": choose a folder that you can write to";
    default:
      return text;
  }
}

// Writes all of bytes and forces them to the disk; errno of the first failure, 0 when done.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  // A full disk may show only here. EINVAL: the target (a pipe, /dev/null) cannot be synchronised.
  if (::fsync(fd) != 0 && errno != EINVAL) return errno;
  return 0;
}

}  // namespace

Expected<std::string> read_file(const std::string& path, std::int64_t bytes_max) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return bad_input(path + ": " + std::strerror(errno));
  struct stat info {};
  std::string problem;
  if (::fstat(fd, &info) != 0) {
    problem = std::strerror(errno);
  } else if (!S_ISREG(info.st_mode)) {
    problem = "not a regular file";
  } else if (info.st_size > bytes_max) {
    problem = std::to_string(info.st_size) + " bytes; at most " + std::to_string(bytes_max) +
              " are accepted";
  }
  std::string text;
  if (problem.empty()) {
    text.resize(static_cast<std::size_t>(info.st_size));
    std::size_t have = 0;
    while (have < text.size()) {
      const ssize_t n = ::read(fd, text.data() + have, text.size() - have);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) problem = std::strerror(errno);
      if (n <= 0) break;
      have += static_cast<std::size_t>(n);
    }
    text.resize(have);
  }
  ::close(fd);
  if (!problem.empty()) return bad_input(path + ": " + problem);
  return text;
}

Status write_file(const std::string& path, std::string_view bytes) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    // The rename would replace a device or a pipe by a file.
    return environment_error("cannot write " + path + ": not a regular file; choose another name");
  }
  const std::string temporary = path + ".tmp." + std::to_string(::getpid());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return environment_error("cannot write " + path + ": " + reason(errno));
  int error = write_all(fd, bytes);
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    return environment_error("cannot write " + path + ": " + reason(error));
  }
  return {};
}

Status make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) == 0) return {};
  const int error = errno;
  struct stat info {};
  if (error == EEXIST && ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return {};
  return environment_error("cannot create the folder " + path + ": " + reason(error));
}

}  // namespace splitwave
