package attacks

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	ServeIfAsked()
	manyConns, manyStreams, manyFrames = 5, 300, 1000
	os.Exit(m.Run())
}

// slack is the difference between two runs of the same attack.
const slack = 2 << 20

// TestAttacksCostLittleMoreMemoryThanWithNetHTTP checks memory and counts only; the command also shows times.
func TestAttacksCostLittleMoreMemoryThanWithNetHTTP(t *testing.T) {
	for _, a := range All() {
		t.Run(a.Name, func(t *testing.T) {
			theirs, err := Measure(t.Context(), NetHTTP, a)
			if err != nil {
				t.Fatal(err)
			}
			ours, err := Measure(t.Context(), Ours, a)
			if err != nil {
				t.Fatal(err)
			}
			if ours.Held > theirs.Held*3/2+slack {
				t.Errorf("%d KiB are held, and %d by net/http", ours.Held>>10, theirs.Held>>10)
			}
			if most := int64(manyConns * 2 * a.streams()); ours.AtOnce > most {
				t.Errorf("%d handlers ran at once, and %d might", ours.AtOnce, most)
			}
		})
	}
}
