package cputime

import "testing"

func TestWorkTakesTimeOfTheProcess(t *testing.T) {
	before := Process()
	for n := uint64(1); Process() == before; n = n*6364136223846793005 + 1 {
		if n == 0 {
			t.Log("a number that the compiler cannot know")
		}
	}
	if after := Process(); after < before {
		t.Errorf("%v after %v", after, before)
	}
}
