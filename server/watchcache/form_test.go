package watchcache

import "testing"

func TestFormsThatNobodyAsksForFade(t *testing.T) {
	b := &formBudget{limit: 1 << 20}
	wanted, forgotten := forms{budget: b}, forms{budget: b}
	build := func() ([]byte, error) { return []byte("form"), nil }
	for _, f := range []*forms{&wanted, &forgotten} {
		if _, err := f.get(0, build); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := wanted.get(0, build); err != nil { // again
		t.Fatal(err)
	}
	b.fade()
	if wanted.table.Load()[0].Load() == nil || forgotten.table.Load()[0].Load() != nil {
		t.Error("the wrong form went")
	}
	b.fade()
	if _, n := b.usage(); n != 0 {
		t.Errorf("%d forms stay that nobody asked for", n)
	}
}
