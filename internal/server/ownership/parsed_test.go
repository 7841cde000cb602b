package ownership

import (
	"testing"

	"github.com/millrace/millrace/internal/server/resource/core"
)

func TestSetsAreRememberedAsTheyWereRead(t *testing.T) {
	q := newQuick(core.Kinds()[0].Faces[0], "", nil)
	texts := []string{
		`{}`,
		`{"f:metadata":{"f:annotations":{".":{},"f:a":{},"f:b":{}},"f:labels":{"f:c":{}}}}`,
		`{"f:metadata":{"f:ownerReferences":{".":{},"k:{\"uid\":\"u\"}":{}}}}`,
	}
	for range 3 {
		var c comparison
		c.reset()
		for _, text := range texts {
			if set := q.read(&c, text); c.odd || string(c.write(nil, set)) != text {
				t.Errorf("%s became %s (odd: %v)", text, c.write(nil, set), c.odd)
			}
		}
	}
	for range 2 {
		var c comparison
		c.reset()
		if q.read(&c, `{"f:metadata":{"f:name":{"f:x":{}}}}`); !c.odd {
			t.Error("a set that leads into a string was taken for one of this kind")
		}
	}
}
