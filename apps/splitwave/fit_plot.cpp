// gnuplot with the script on standard input and the SVG on standard output.
#include "fit_plot.h"

#include <sys/wait.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/files.h"
#include "base/text_table.h"

namespace splitwave::app {

std::string fit_plot_script(const stats::StepFit& fit) {
  std::string data = "$points << EOD\n";
  for (const stats::StepPoint& point : fit.points) {
    data += std::to_string(point.concurrency) + ' ' + fixed(point.step_ms, 6) + ' ' +
            fixed(100 * point.residual_share, 6) + '\n';
  }
  data += "EOD\n";
  const std::string fixed_ms = fixed(fit.fixed_ms.estimate, 6);
  const std::string marginal_ms = fixed(fit.marginal_ms.estimate, 8);
  return "set terminal svg size 800,640 font 'sans,13' background 'white'\n" + data +
         "set multiplot layout 2,1\n"
         "set grid\n"
         "set xrange [0:*]\n"
         "set key left top\n"
         "set ylabel 'step (ms)'\n"
         "set title sprintf('step = %.4g ms + %.4g ms x concurrency', " +
         fixed_ms + ", " + marginal_ms + ")\n" + "plot " + fixed_ms + " + " + marginal_ms +
         " * x title 'fitted' lw 2 lc rgb '#3366aa', "
         "$points using 1:2 title 'measured' pt 7 lc rgb '#222222'\n"
         "unset key\n"
         "unset title\n"
         "set xlabel 'concurrency'\n"
         "set ylabel 'residual (%)'\n"
         "set xzeroaxis lw 2 lc rgb '#3366aa'\n"
         "plot $points using 1:3 with impulses lw 2 lc rgb '#888888', "
         "$points using 1:3 with points pt 7 lc rgb '#222222'\n"
         "unset multiplot\n";
}

Status draw_svg(const std::string& script, const std::string& path) {
  // The script goes through a file: a pipe in both directions could block on either end.
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> input(std::tmpfile(), &std::fclose);
  if (input == nullptr ||
      std::fwrite(script.data(), 1, script.size(), input.get()) != script.size() ||
      std::fflush(input.get()) != 0) {
    return environment_error("cannot write a temporary file for gnuplot: free space in TMPDIR");
  }
  std::rewind(input.get());
  const std::string command = "gnuplot 2>/dev/null </dev/fd/" + std::to_string(fileno(input.get()));
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return environment_error("cannot start a shell for gnuplot");
  std::string svg;
  char buffer[16384];
  while (const std::size_t count = std::fread(buffer, 1, sizeof buffer, pipe)) {
    svg.append(buffer, count);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    return environment_error(
        "gnuplot is not installed: apt-get install gnuplot-nox, or leave out "
        "--plot");
  }
  if (status != 0 || svg.find("</svg>") == std::string::npos) {
    return environment_error("gnuplot drew nothing for " + path);
  }
  return write_file(path, svg);
}

}  // namespace splitwave::app
