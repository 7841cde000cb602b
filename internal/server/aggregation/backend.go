package aggregation

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/auth"
)

// learnBackend asks a backend what it serves. It says so from the start, and does not change.
func (a *Aggregator) learnBackend(ctx context.Context, gv schema.GroupVersion, b Backend) error {
	q, err := http.NewRequestWithContext(auth.WithUser(ctx, itself), http.MethodGet, "/apis/"+gv.String(), nil)
	if err != nil {
		return err
	}
	q.Header.Set("Accept", "application/json")
	answer := &recorder{header: http.Header{}}
	b.ServeHTTP(answer, q)
	var list metav1.APIResourceList
	if json.Unmarshal(answer.body.Bytes(), &list) == nil { // otherwise it has nothing to show
		a.learn(gv, described(gv.Version, &list))
	}
	return nil
}

// recorder keeps a small answer.
type recorder struct {
	header http.Header
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
func (r *recorder) WriteHeader(int)             {}
