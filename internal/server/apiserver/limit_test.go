package apiserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/server/apiserver/internal/answer"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/fairness"
)

// unread is a client that does not read for a while.
type unread struct {
	*httptest.ResponseRecorder
	until chan struct{}
}

func (u *unread) Flush() { <-u.until }

// The level catch-all, to which these requests belong, has as many seats as the whole server.
func TestDelegatedRequestsHaveSeatsOfTheirOwn(t *testing.T) {
	limiter := fairness.New(fairness.Options{Seats: 1})
	hung := make(chan struct{})
	first := callFor(&permits{}, "GET", "/apis/hangs.example/v1/things")
	serve := func(path string, of *call) (served bool, err error) {
		if of == nil {
			of = callFor(&permits{}, "GET", path)
		}
		of.s.o.Fairness, of.user = limiter, auth.User{Name: "jane", Groups: []string{auth.Authenticated}}
		if of.isResource && of.t.Group != "" {
			of.delegate = http.NotFoundHandler()
		}
		err = limit(of, func(c *call) error {
			if served = true; c == first {
				close(hung)
				<-c.Within.Done()
			}
			return nil
		})
		return served, err
	}
	within, end := context.WithCancel(t.Context())
	first.Within = within
	var ended sync.WaitGroup
	ended.Go(func() { _, _ = serve("", first) })
	<-hung
	for path, want := range map[string]bool{
		"/apis/hangs.example/v1/things":            false, // there is no queue in this level
		"/apis/hangs.example/v1/things?watch=true": false,
		"/apis/other.example/v1/things":            true,
		"/api/v1/pods":                             true,
	} {
		if served, err := serve(path, nil); served != want || err != nil {
			t.Errorf("%s beside a request that hangs: served %v, %v", path, served, err)
		}
	}
	end()
	ended.Wait()
	for range 2 { // a watch holds no seat
		if served, _ := serve("/apis/hangs.example/v1/things?watch=true", nil); !served {
			t.Error("a watch is refused")
		}
	}
}

func TestAnAnswerThatNobodyReadsKeepsNoSeat(t *testing.T) {
	for _, one := range []struct {
		size          int
		reads, leaves time.Duration
	}{
		{1000, time.Minute, 0}, {largeAnswer, 0, 0}, {largeAnswer, time.Millisecond, time.Millisecond}, {largeAnswer, time.Minute, longestSend},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := &unread{httptest.NewRecorder(), make(chan struct{})}
			c := &call{Answer: answer.Answer{Writer: &answer.Response{ResponseWriter: client}}}
			if _, err := c.Writer.Write(make([]byte, one.size)); err != nil {
				t.Fatal(err)
			}
			start, left := time.Now(), []time.Duration(nil)
			time.AfterFunc(one.reads, func() { close(client.until) })
			c.sendLarge(func() { left = append(left, time.Since(start)) })
			time.Sleep(2 * time.Minute) // in a synctest bubble: takes no time
			if len(left) != 1 || left[0] != one.leaves {
				t.Errorf("%d bytes, read after %v: the seat was left after %v", one.size, one.reads, left)
			}
		})
	}
}
