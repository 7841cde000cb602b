package randomly

import "testing"

func TestAGivenSeedIsUsed(t *testing.T) {
	t.Setenv(variable, "42")
	if got := Seed(t); got != 42 {
		t.Errorf("the seed is %d", got)
	}
}

func TestSeedsDifferAndFitIntoAnySource(t *testing.T) {
	t.Setenv(variable, "")
	a, b := Seed(t), Seed(t)
	if a == b {
		t.Errorf("two seeds are %d", a)
	}
	if int64(a) < 0 || int64(b) < 0 {
		t.Errorf("%d or %d is not a seed of math/rand", a, b)
	}
}
