package watchcache

import (
	"fmt"
	"testing"
)

func BenchmarkTreeSetAfterSnapshot(b *testing.B) {
	for _, every := range []int{0, 1, 16} {
		b.Run(fmt.Sprintf("freeze every %d", every), func(b *testing.B) {
			tr := newTree()
			objects := make([]*Object, 100_000)
			for i := range objects {
				objects[i] = &Object{Key: fmt.Sprintf("/registry/pods/default/pod-%06d", i)}
				tr.set(objects[i].Key, objects[i])
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				if every > 0 && n%every == 0 {
					tr.freeze()
				}
				o := objects[n*7919%len(objects)]
				tr.set(o.Key, o)
			}
		})
	}
}
