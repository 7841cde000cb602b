package extensions_test

import (
	"fmt"
	"testing"
)

// BenchmarkCreate creates config maps, one after the other, without a webhook and with one that allows them. With -peer
// it uses that server, for a comparison.
func BenchmarkCreate(b *testing.B) {
	for _, webhooks := range []int{0, 1} {
		b.Run(fmt.Sprintf("webhooks=%d", webhooks), func(b *testing.B) {
			a := targetAPI(b)
			if webhooks > 0 {
				a.do(configuration("validating", "bench", "allow", rule("", "v1", "configmaps"), ""))
				defer a.do(gone(fmt.Sprintf(hooks, "validating") + "/bench"))
			}
			n := 0
			for b.Loop() {
				n++
				if o := a.do(configMap(fmt.Sprintf("bench-%d-%d", webhooks, n))); o.Code != 201 {
					b.Fatal(o)
				}
			}
			b.StopTimer()
			a.do(step{Method: "DELETE", Path: maps})
		})
	}
}
