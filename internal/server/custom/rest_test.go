package custom

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	structure "github.com/millrace/millrace/internal/server/custom/schema"
)

// A schema that is used stays compiled. One that is not used for 20 minutes is compiled again when it is next needed.
func TestUnusedSchemasAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		compiled := 0
		s := structure.New(func() (*v1.CustomResourceValidation, bool, error) {
			compiled++
			return &v1.CustomResourceValidation{OpenAPIV3Schema: &v1.JSONSchemaProps{Type: "object"}}, false, nil
		})
		use := func(want int, when string) {
			t.Helper()
			if _, err := s.Tree(); err != nil {
				t.Fatal(err)
			}
			if compiled != want {
				t.Errorf("%s: compiled %d times, want %d", when, compiled, want)
			}
		}
		d := &Definitions{known: map[string]*record{
			"served":     {served: &definition{versions: map[string]*version{"v1": {schema: s}}}},
			"not served": {},
		}}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { d.rest(ctx) })
		defer running.Wait()
		defer cancel()

		use(1, "at first")
		for range 6 {
			time.Sleep(9 * time.Minute)
			use(1, "used every 9 minutes")
		}
		time.Sleep(20*time.Minute + time.Second)
		use(2, "after 20 minutes without use")
	})
}
