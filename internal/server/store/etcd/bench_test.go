package etcd

import (
	"testing"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/etcd/etcdtest"
	"github.com/millrace/millrace/internal/server/store/storetest"
)

func BenchmarkCluster(b *testing.B) {
	storetest.Bench(b, func(b *testing.B) store.Store { return dial(b, etcdtest.Start(b, etcdtest.Options{Safe: true}), "") })
}
