package corpus

import "testing"

func TestTheStoriesCanBeRead(t *testing.T) {
	steps := 0
	for name, story := range Stories() {
		for _, s := range story {
			if steps++; s.Name == "" || s.Method == "" || s.Path == "" || s.Want.Status == 0 {
				t.Errorf("%s: step %q is not complete", name, s.Name)
			}
		}
	}
	if steps < 394 {
		t.Errorf("there are %d steps, but 394 were recorded", steps)
	}
}
