package review_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/review"
)

func TestWhatMayWorkLaterIsTriedAgain(t *testing.T) {
	for _, test := range []struct {
		codes []int
		tries int32
		works bool
	}{
		{[]int{500, 429, 200}, 3, true},
		{[]int{404}, 1, false},
		{[]int{500, 500, 500, 500, 500}, 5, false},
	} {
		var tries atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(test.codes[tries.Add(1)-1])
			w.Write([]byte(`{"allowed": true}`))
		}))
		path := filepath.Join(t.TempDir(), "config")
		text := "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: '" + server.URL + "'}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := review.New(review.Options{ConfigFile: path, Backoff: time.Microsecond})
		if err != nil {
			t.Fatal(err)
		}
		var answer struct{ Allowed bool }
		err = c.Ask(t.Context(), map[string]string{"question": "x"}, &answer)
		if (err == nil) != test.works || answer.Allowed != test.works || tries.Load() != test.tries {
			t.Errorf("answers of %v: %v after %d tries", test.codes, err, tries.Load())
		}
		server.Close()
	}
}

func TestAnAnswerIsKeptAsLongAsItsQuestionSaysAndErrorsAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c review.Cache[string]
		asked := 0
		ask := func(answer string, err error) string {
			got, _ := c.Get(t.Context(), review.Key(sha256.Sum256([]byte("x"))), func(context.Context) (string, time.Duration, error) {
				asked++
				return answer, time.Minute, err
			})
			return got
		}
		ask("", errors.New("nobody answers"))
		if got := ask("first", nil); got != "first" {
			t.Errorf("after an error the answer is %q", got)
		}
		time.Sleep(59 * time.Second)
		if got := ask("second", nil); got != "first" || asked != 2 {
			t.Errorf("within the time the answer is %q, after %d questions", got, asked)
		}
		time.Sleep(2 * time.Second)
		if got := ask("third", nil); got != "third" || asked != 3 {
			t.Errorf("after the time the answer is %q, after %d questions", got, asked)
		}
	})
}
