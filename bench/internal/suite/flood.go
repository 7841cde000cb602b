package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/bench/internal/h2"
	"github.com/millrace/millrace/bench/internal/objects"
	"github.com/millrace/millrace/bench/internal/target"
)

// FloodVerb is the argument with which this program is a client that wants more than its share. The path that it wants
// follows.
const FloodVerb = "flood"

const (
	// flooding is how many requests the client keeps in flight, and flooded how many objects each of them lists.
	flooding, flooded = 1000, 100
	// refusedWait is how long it waits after a refusal, as it is told to.
	refusedWait = time.Second
	// floodStart is how long it takes until all its requests are in flight.
	floodStart = 500 * time.Millisecond
)

// What such a client may want.
var (
	oneGet  = configMaps + "/" + objects.Name('q', 0)
	oneList = fmt.Sprintf("%s?limit=%d", configMaps, flooded)
)

// startFlood starts such a client in a process of its own: in this one it would delay those that are measured. The
// function that stops it returns how many answers a second it got.
func startFlood(ctx context.Context, s *target.Server, path string) (stop func() float64, err error) {
	access, err := json.Marshal(s.Access)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, self, FloodVerb, path)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	var said bytes.Buffer
	c.Stdout = &said
	if err := c.Start(); err != nil {
		return nil, err
	}
	stop = func() (rate float64) {
		in.Close() // which ends it
		_ = c.Wait()
		_, _ = fmt.Fscan(&said, &rate) // a client that was killed says nothing
		return rate
	}
	if _, err := in.Write(append(access, '\n')); err != nil {
		stop()
		return nil, err
	}
	time.Sleep(floodStart)
	return stop, nil
}

// Flood is the main function of the client: it reads the access to a server, and asks for a path until its input ends.
// Then it writes how many answers a second it got.
func Flood(ctx context.Context, in io.Reader, out io.Writer, path string) error {
	var access target.Access
	decoder := json.NewDecoder(in)
	if err := decoder.Decode(&access); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_ = decoder.Decode(&struct{}{}) // returns when the input ends
		stop()
	}()
	var running sync.WaitGroup
	defer running.Wait()
	var wire h2.Wire
	var conns []*h2.Conn
	for range connections {
		c, err := access.Dial(ctx, &wire)
		if err != nil {
			return err
		}
		defer c.Close()
		conns = append(conns, c)
	}
	var answers atomic.Int64
	began := time.Now()
	request := h2.Request{Method: http.MethodGet, Path: path, Header: as("flood")}
	for i := range flooding {
		running.Go(func() {
			for ctx.Err() == nil {
				if _, err := conns[i%len(conns)].Size(ctx, request); err == nil {
					answers.Add(1)
					continue
				}
				select {
				case <-ctx.Done():
				case <-time.After(refusedWait):
				}
			}
		})
	}
	<-ctx.Done()
	_, err := fmt.Fprintln(out, float64(answers.Load())/time.Since(began).Seconds())
	return err
}
