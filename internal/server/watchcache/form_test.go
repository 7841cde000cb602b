package watchcache

import "testing"

func TestUnusedFormsAreDropped(t *testing.T) {
	b := &formBudget{limit: 1 << 20}
	wanted, forgotten := forms{budget: b}, forms{budget: b}
	build := func() ([]byte, error) { return []byte("form"), nil }
	for _, f := range []*forms{&wanted, &forgotten} {
		if _, err := f.get(0, 0, build); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := wanted.get(0, 0, build); err != nil { // again
		t.Fatal(err)
	}
	b.dropUnused()
	if wanted.table.Load().slots[0].Load() == nil || forgotten.table.Load().slots[0].Load() != nil {
		t.Error("the wrong form went")
	}
	b.dropUnused()
	if _, n := b.usage(); n != 0 {
		t.Errorf("%d unused forms are kept", n)
	}
}

func TestEditionsHaveFormsOfTheirOwn(t *testing.T) {
	f := forms{budget: &formBudget{limit: 1 << 20}}
	for _, edition := range []uint32{0, 7, 3} {
		for range 2 {
			got, err := f.get(edition, 1, func() ([]byte, error) { return []byte{byte(edition)}, nil })
			if err != nil || got[0] != byte(edition) {
				t.Errorf("edition %d: got %v, %v", edition, got, err)
			}
		}
	}
	f.drop()
	if _, n := f.budget.usage(); n != 0 {
		t.Errorf("%d forms of a deleted object are kept", n)
	}
}
