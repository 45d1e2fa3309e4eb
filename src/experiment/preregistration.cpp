// libgit2 1.5: handles are released by unique_ptr, errors carry git's own words.
#include "experiment/preregistration.h"

#include <git2.h>

#include <filesystem>
#include <memory>

#include "base/sha256.h"

namespace splitwave::experiment {
namespace {

namespace fs = std::filesystem;

struct GitLibrary {
  GitLibrary() { git_libgit2_init(); }
  ~GitLibrary() { git_libgit2_shutdown(); }
};

template <class T, void (*Free)(T*)>
struct GitFree {
  void operator()(T* p) const { Free(p); }
};
using Repository = std::unique_ptr<git_repository, GitFree<git_repository, git_repository_free>>;
using Object = std::unique_ptr<git_object, GitFree<git_object, git_object_free>>;
using TreeEntry = std::unique_ptr<git_tree_entry, GitFree<git_tree_entry, git_tree_entry_free>>;
using Blob = std::unique_ptr<git_blob, GitFree<git_blob, git_blob_free>>;

std::string git_words() {
  const git_error* error = git_error_last();
  return error != nullptr && error->message != nullptr ? error->message : "no detail";
}

std::string hex_of(const git_oid& id) {
  char text[GIT_OID_HEXSZ + 1];
  return git_oid_tostr(text, sizeof text, &id);
}

Error unreadable(const std::string& what) {
  return environment_error("git: cannot read " + what + ": " + git_words());
}

Error owned_by_another(const fs::path& folder) {
  return environment_error("git: the repository of " + folder.string() +
                           " belongs to another user; if you trust it, name its top folder: git "
                           "config --global --add safe.directory FOLDER");
}

// Whether some repository lies at or above the folder, readable or not.
bool has_repository(const fs::path& folder) {
  git_buf path = GIT_BUF_INIT;
  const bool found = git_repository_discover(&path, folder.c_str(), 0, nullptr) == 0;
  git_buf_dispose(&path);
  return found;
}

// Null without an error: there is no repository.
Expected<std::shared_ptr<git_repository>> open_repository(const fs::path& folder) {
  git_repository* raw = nullptr;
  const int code = git_repository_open_ext(&raw, folder.c_str(), 0, nullptr);
  if (code == GIT_EOWNER) return owned_by_another(folder);
  if (code == GIT_ENOTFOUND) {
    // libgit2 1.5 gives this code for a foreign repository too, when no safe.directory is
    // configured: a plan must not pass for "no repository" because of that.
    if (has_repository(folder)) return owned_by_another(folder);
    return std::shared_ptr<git_repository>();
  }
  if (code != 0) return unreadable("the repository of " + folder.string());
  return std::shared_ptr<git_repository>(raw, git_repository_free);
}

Error not_registered(const std::string& path, const std::string& why) {
  return bad_input(path + ": " + why +
                   "; a plan is committed before its run: git add, git commit, " +
                   "then run again");
}

}  // namespace

Expected<Preregistration> look_up_plan(const std::string& path, std::string_view text) {
  const GitLibrary library;
  Preregistration found;
  found.plan_sha256 = sha256_hex(text);
  found.commit = "none";
  found.blob = "none";
  std::error_code error;
  const fs::path absolute = fs::canonical(path, error);
  if (error) return bad_input(path + ": " + error.message());
  found.path = absolute.filename().string();
  const auto repository = open_repository(absolute.parent_path());
  if (!repository.ok()) return repository.error();
  if (*repository == nullptr) return found;
  git_repository* repo = repository->get();

  const char* top = git_repository_workdir(repo);
  if (top == nullptr) return environment_error("git: " + path + " lies in a bare repository");
  const fs::path inside = fs::relative(absolute, fs::canonical(top, error), error);
  if (error) return environment_error("git: " + std::string(top) + ": " + error.message());
  found.path = inside.generic_string();

  git_object* raw_commit = nullptr;
  const int head = git_revparse_single(&raw_commit, repo, "HEAD^{commit}");
  const Object commit(raw_commit);
  if (head == GIT_ENOTFOUND) return not_registered(path, "the repository has no commit yet");
  if (head != 0) return unreadable("HEAD");
  found.commit = hex_of(*git_object_id(commit.get()));
  git_object* raw_tree = nullptr;
  if (git_object_peel(&raw_tree, commit.get(), GIT_OBJECT_TREE) != 0)
    return unreadable("HEAD's tree");
  const Object tree(raw_tree);

  git_tree_entry* raw_entry = nullptr;
  const int looked = git_tree_entry_bypath(
      &raw_entry, reinterpret_cast<const git_tree*>(tree.get()), found.path.c_str());
  const TreeEntry entry(raw_entry);
  if (looked == GIT_ENOTFOUND) {
    return not_registered(path, "HEAD (" + found.commit.substr(0, 10) + ") does not hold it");
  }
  if (looked != 0) return unreadable(found.path + " in HEAD's tree");
  found.blob = hex_of(*git_tree_entry_id(entry.get()));
  git_blob* raw_blob = nullptr;
  if (git_blob_lookup(&raw_blob, repo, git_tree_entry_id(entry.get())) != 0) {
    return unreadable("blob " + found.blob);
  }
  const Blob blob(raw_blob);
  const std::string_view committed(static_cast<const char*>(git_blob_rawcontent(blob.get())),
                                   static_cast<std::size_t>(git_blob_rawsize(blob.get())));
  if (committed != text) {
    return not_registered(path, "it differs from what HEAD (" + found.commit.substr(0, 10) +
                                    ") holds: a plan is not changed between commit and run");
  }
  found.state = PlanState::registered;
  return found;
}

}  // namespace splitwave::experiment
