package apiserver

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/server/apiserver/internal/answer"
)

// unread is a client that does not read for a while.
type unread struct {
	*httptest.ResponseRecorder
	until chan struct{}
}

func (u *unread) Flush() { <-u.until }

func TestAnAnswerThatNobodyReadsKeepsNoPlace(t *testing.T) {
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
				t.Errorf("%d bytes, read after %v: the place was left after %v", one.size, one.reads, left)
			}
		})
	}
}
