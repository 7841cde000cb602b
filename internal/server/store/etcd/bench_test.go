package etcd

import (
	"testing"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/storetest"
)

func BenchmarkEmbedded(b *testing.B) {
	storetest.Bench(b, func(b *testing.B) store.Store { return mustEmbed(b, b.TempDir()) })
}

func BenchmarkCluster(b *testing.B) {
	storetest.Bench(b, func(b *testing.B) store.Store { return startCluster(b).dial(b, "") })
}

func BenchmarkStartAndStop(b *testing.B) {
	for b.Loop() {
		if err := mustEmbed(b, b.TempDir()).Close(); err != nil {
			b.Fatal(err)
		}
	}
}
