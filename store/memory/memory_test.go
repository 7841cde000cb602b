package memory

import (
	"testing"

	"github.com/millrace/millrace/store"
	"github.com/millrace/millrace/store/storetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryKeepsTheGuaranteesOfAStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return New(Options{}) })
}
