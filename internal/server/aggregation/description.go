package aggregation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

const (
	// describeEvery is how long a description holds before its server is asked again.
	describeEvery = time.Minute
	// keepDescription is how long a description is kept that nobody asks for.
	keepDescription = 3 * time.Minute
	// mostDescription bounds a description.
	mostDescription = 32 << 20
)

// Description is what a server says of itself in version 2 of OpenAPI.
type Description struct {
	// Group is the API group that the server answers for.
	Group string
	// Tag changes with the text.
	Tag string
	// Text is JSON, if the server is to be believed.
	Text []byte
}

// description is that of one server. It is asked for when somebody wants to see it.
type description struct {
	mu          sync.Mutex // guards what follows; held while the server is asked, so that it is asked once
	text        []byte
	tag, etag   string
	asked, used time.Time
}

// Descriptions are those of all servers that are available, in the order of their names. All servers are asked at the
// same time; one that does not answer in five seconds is shown as it was, if that is known, and left out if not.
func (a *Aggregator) Descriptions(ctx context.Context) (out []Description) {
	s := a.now.Load()
	var all []*remote
	for _, name := range slices.Sorted(maps.Keys(s.remotes)) {
		if r := s.remotes[name]; r.available && r.connections.err == nil {
			all = append(all, r)
		}
	}
	found := make([]Description, len(all))
	var asking sync.WaitGroup
	for i, r := range all {
		asking.Go(func() { found[i] = a.describe(ctx, r) })
	}
	asking.Wait()
	for _, d := range found {
		if d.Text != nil && !slices.ContainsFunc(out, func(o Description) bool { return o.Group == d.Group && o.Tag == d.Tag }) {
			out = append(out, d)
		}
	}
	return out
}

func (a *Aggregator) describe(ctx context.Context, r *remote) Description {
	d := &r.connections.described
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.used = now
	if d.asked.IsZero() || now.Sub(d.asked) >= describeEvery {
		d.asked = now
		// Others may want to see the description when the one who asked first has gone.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
		defer cancel()
		if err := d.renew(ctx, a, r.service, r.connections); err != nil {
			a.log.Debug("an API service does not describe itself", "name", r.service.Name, "error", err)
		}
	}
	return Description{r.service.Spec.Group, d.tag, d.text}
}

// renew asks the server, unless it says that nothing has changed.
func (d *description) renew(ctx context.Context, a *Aggregator, s *v1.APIService, c *connections) error {
	answer, err := a.get(ctx, s, c, "/openapi/v2", "If-None-Match", d.etag)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusNotModified && d.text != nil:
		return nil
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostDescription+1))
	if err != nil {
		return err
	}
	if len(text) > mostDescription {
		return fmt.Errorf("the description is longer than %d bytes", mostDescription)
	}
	sum := sha256.Sum256(text)
	d.text, d.tag, d.etag = text, hex.EncodeToString(sum[:]), answer.Header.Get("Etag")
	return nil
}

// forgetUnused gives back a description that nobody has asked for in a while.
func (d *description) forgetUnused() {
	if !d.mu.TryLock() {
		return // the server is being asked
	}
	defer d.mu.Unlock()
	if d.text != nil && time.Since(d.used) >= keepDescription {
		d.text, d.tag, d.etag, d.asked = nil, "", "", time.Time{}
	}
}
