package memory

import (
	"testing"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/storetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryKeepsTheGuaranteesOfAStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return New(Options{}) })
}

func BenchmarkMemory(b *testing.B) {
	storetest.Bench(b, func(*testing.B) store.Store { return New(Options{}) })
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if err := New(Options{}).Close(); err != nil {
			b.Fatal(err)
		}
	}
}
