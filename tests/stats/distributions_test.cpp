// Distribution functions against Boost.Math, and the corruption bound.
#include "stats/distributions.h"

#include <gtest/gtest.h>

#include <boost/math/distributions/beta.hpp>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <vector>

namespace splitwave::stats {
namespace {

void expect_close(double got, double want, double relative, const std::string& what) {
  EXPECT_NEAR(got, want, relative * std::fabs(want)) << what;
}

const std::vector<double> k_shares = {1e-300, 1e-12, 1e-4, 0.01,  0.025, 0.1,   0.3,
                                      0.5,    0.7,   0.9,  0.975, 0.99,  0.9999};

TEST(Distributions, NormalMatchesBoostFromTheFarTailToTheCentre) {
  const boost::math::normal_distribution<> oracle;
  for (const double p : k_shares) {
    if (p == 0.5) {
      EXPECT_NEAR(normal_quantile(p), 0, 1e-15);
      continue;
    }
    expect_close(normal_quantile(p), quantile(oracle, p), 1e-12, std::to_string(p));
  }
  for (double z = -30; z <= 8; z += 0.37) {
    expect_close(normal_cdf(z), cdf(oracle, z), 1e-12, std::to_string(z));
  }
}

TEST(Distributions, StudentsTMatchesBoostForFewAndManyDegrees) {
  for (const double degrees : {1.0, 2.0, 3.0, 7.0, 14.0, 39.0, 400.0}) {
    const boost::math::students_t_distribution<> oracle(degrees);
    for (double t = -40; t <= 40; t += 1.7) {
      expect_close(student_t_cdf(t, degrees), cdf(oracle, t), 1e-11, std::to_string(t));
    }
    for (const double p : {1e-6, 0.001, 0.025, 0.4, 0.6, 0.975, 0.9995}) {
      expect_close(student_t_quantile(p, degrees), quantile(oracle, p), 1e-9, std::to_string(p));
    }
  }
}

TEST(Distributions, BetaMatchesBoostIncludingItsInverse) {
  for (const double a : {0.5, 1.0, 3.0, 40.0, 500.0}) {
    for (const double b : {0.5, 2.0, 17.0, 900.0}) {
      const boost::math::beta_distribution<> oracle(a, b);
      for (const double x : {0.0, 1e-6, 0.01, 0.3, 0.5, 0.8, 0.999, 1.0}) {
        EXPECT_NEAR(regularized_beta(a, b, x), cdf(oracle, x), 1e-11) << a << ' ' << b << ' ' << x;
      }
      for (const double p : {0.01, 0.5, 0.95}) {
        expect_close(beta_quantile(p, a, b), quantile(oracle, p), 1e-8, "inverse");
      }
    }
  }
}

TEST(CorruptionBound, NoneOf240IsAtMostOnePointTwoFivePercentByTheRuleOfThree) {
  EXPECT_DOUBLE_EQ(rule_of_three(240), 0.0125);
  EXPECT_NEAR(binomial_upper_bound(0, 240), 0.012405, 5e-7);  // 1 - 0.05^(1/240)
}

TEST(CorruptionBound, RuleOfThreeIsNeverBelowTheExactBound) {
  for (std::int64_t n = 1; n < 100'000; n = n * 5 / 4 + 1) {
    EXPECT_GE(rule_of_three(n), binomial_upper_bound(0, n)) << n;
  }
}

TEST(CorruptionBound, ExactBoundMatchesBoostsClopperPearson) {
  using Binomial = boost::math::binomial_distribution<>;
  for (const int trials : {1, 24, 96, 240, 5'000}) {
    for (const int events : {0, 1, 2, 10}) {
      if (events >= trials) continue;
      const double want = Binomial::find_upper_bound_on_p(trials, events, 0.05);
      expect_close(binomial_upper_bound(events, trials), want, 1e-8, std::to_string(trials));
    }
  }
}

TEST(CorruptionBound, NothingTriedOrEverythingCorruptedBoundsNothing) {
  EXPECT_EQ(binomial_upper_bound(0, 0), 1);
  EXPECT_EQ(binomial_upper_bound(7, 7), 1);
  EXPECT_EQ(rule_of_three(0), 1);
  EXPECT_EQ(rule_of_three(2), 1);
}

}  // namespace
}  // namespace splitwave::stats
