// Package review asks servers elsewhere questions of which Kubernetes calls each a review: it posts one as JSON to the
// server that a kubeconfig names, and keeps what was answered.
//
// What is guaranteed: what may work later is tried again, five times at most. A Cache keeps an answer as long as its
// question said, and no longer; errors are not kept. It holds a bounded number of answers, and many who ask the same at
// a time are one question.
package review

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Client posts reviews to the server that a kubeconfig names.
type Client struct {
	url     string
	http    *http.Client
	backoff time.Duration
	asked   func(ctx context.Context, err error, took time.Duration)
}

const (
	timeout = 30 * time.Second
	tries   = 5
	backoff = 500 * time.Millisecond
	growth  = 1.5
	// longestAnswer bounds what is read of an answer.
	longestAnswer = 4 << 20
)

// Options say whom to ask. ConfigFile, a kubeconfig, is needed.
type Options struct {
	ConfigFile string
	// Timeout bounds one try: 30 s by default.
	Timeout time.Duration
	// Backoff is how long to wait before the second try: 500 ms by default.
	Backoff time.Duration
	// Asked is told of each try; nil tells nobody.
	Asked func(ctx context.Context, err error, took time.Duration)
}

// New makes a client. It asks nobody yet.
func New(o Options) (*Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.ConfigFile)
	if err != nil {
		return nil, err
	}
	config.Timeout = cmp.Or(o.Timeout, timeout)
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return &Client{url: config.Host, http: c, backoff: cmp.Or(o.Backoff, backoff), asked: o.Asked}, nil
}

// Ask posts a review and reads the answer. What may work later is tried again.
func (c *Client) Ask(ctx context.Context, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	wait := c.backoff
	for try := 1; ; try++ {
		began := time.Now()
		again, err := c.post(ctx, body, out)
		if c.asked != nil {
			c.asked(ctx, err, time.Since(began))
		}
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

func (c *Client) post(ctx context.Context, body []byte, out any) (again bool, err error) {
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
