package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// client posts reviews to the server that a kubeconfig names.
type client struct {
	url     string
	http    *http.Client
	backoff time.Duration
}

const (
	timeout = 30 * time.Second
	tries   = 5
	backoff = 500 * time.Millisecond
	growth  = 1.5
	// longestAnswer bounds what is read of an answer.
	longestAnswer = 4 << 20
)

func newClient(kubeconfig string) (*client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Timeout = timeout
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return &client{url: config.Host, http: c, backoff: backoff}, nil
}

// review posts a review and reads the answer. What may work later is tried again.
func (c *client) review(ctx context.Context, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	wait := c.backoff
	for try := 1; ; try++ {
		again, err := c.post(ctx, body, out)
		if err == nil || !again || try == tries {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		wait = time.Duration(float64(wait) * growth)
	}
}

func (c *client) post(ctx context.Context, body []byte, out any) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	res, err := c.http.Do(r)
	if err != nil {
		return true, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, longestAnswer))
	switch {
	case err != nil:
		return true, err
	case res.StatusCode/100 != 2:
		return res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= http.StatusInternalServerError, fmt.Errorf("the webhook answers %s", res.Status)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return false, fmt.Errorf("the webhook's answer cannot be read: %w", err)
	}
	return false, nil
}
