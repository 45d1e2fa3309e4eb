// splitwave doctor: what this machine offers, which variants it can run, what is missing.
#include "command.h"

namespace splitwave::app {

void add_doctor(CLI::App& root, CommandContext& context) {
  add_command(root, context, "doctor", "what this machine offers and what is missing",
              "splitwave doctor --json");
}

}  // namespace splitwave::app
