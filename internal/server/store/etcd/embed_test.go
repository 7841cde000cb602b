package etcd

import (
	"testing"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/storetest"
)

func mustEmbed(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Embed(t.Context(), EmbedOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEmbeddedEtcdKeepsTheGuaranteesOfAStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Store { return mustEmbed(t, t.TempDir()) })
}

func TestEmbeddedEtcdKeepsDataOnDisk(t *testing.T) {
	t.Parallel()
	storetest.RunDurable(t, func(t *testing.T, dir string) store.Store { return mustEmbed(t, dir) })
}
