package cause_test

import (
	"net/http"
	"testing"

	"github.com/millrace/millrace/cause"
)

// answered is a transport that does nothing.
type answered struct{}

func (answered) RoundTrip(*http.Request) (*http.Response, error) { return nil, nil }

// BenchmarkSending is what a cause adds to a request of a loop: its place in the context, and the header.
func BenchmarkSending(b *testing.B) {
	by := &cause.Cause{Changes: []cause.Change{change("web-76f5576d69", 123456)}, Count: 1}
	next := cause.Transport(answered{})
	r, _ := http.NewRequest(http.MethodPost, "https://server/api/v1/namespaces/default/pods", nil)
	r.Header.Set("Content-Type", "application/vnd.kubernetes.protobuf")
	b.ReportAllocs()
	for b.Loop() {
		ctx := cause.Working(b.Context(), "replicaset-controller", "default/web-76f5576d69", by)
		_, _ = next.RoundTrip(r.WithContext(ctx))
	}
}

// BenchmarkReading is what a step of a chain costs beside the record that is read.
func BenchmarkReading(b *testing.B) {
	text := cause.Cause{Loop: "replicaset-controller", Key: "default/web-76f5576d69", Changes: []cause.Change{change("web-76f5576d69", 123456)}, Count: 1}.String()
	b.ReportMetric(float64(len(text)), "bytes")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := cause.Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}
