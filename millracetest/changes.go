package millracetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// mostChanges is how many requests of a cluster are remembered.
const mostChanges = 500

// changes remember the last requests of a cluster that were to change something: what Start prints if a test fails.
// Requests about leases, by which nodes and leaders show that they are alive, are left out.
type changes struct {
	mu    sync.Mutex // guards what follows
	all   [][]byte   // a ring of audit events
	count int        // of all that there were
}

func (c *changes) add(event []byte) {
	one := append([]byte(nil), event...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) < mostChanges {
		c.all = append(c.all, one)
	} else {
		c.all[c.count%mostChanges] = one
	}
	c.count++
}

// change is what is told of an audit event.
type change struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	Agent  string `json:"userAgent"`
	URI    string `json:"requestURI"`
	Object *struct {
		Resource, Namespace, Name, APIGroup, Subresource string
	} `json:"objectRef"`
	Status struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"responseStatus"`
	Received time.Time `json:"requestReceivedTimestamp"`
}

func (c *change) String() string {
	what := c.URI
	if o := c.Object; o != nil {
		what = o.Resource
		if o.APIGroup != "" {
			what += "." + o.APIGroup
		}
		if o.Subresource != "" {
			what += "/" + o.Subresource
		}
		what += " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
	}
	agent, _, _ := strings.Cut(c.Agent, " ")
	text := fmt.Sprintf("%s %-7s %s by %s (%s): %d", c.Received.UTC().Format("15:04:05.000000"), c.Verb, what, c.User.Username, agent, c.Status.Code)
	if c.Status.Code >= 400 {
		text += " " + c.Status.Message
	}
	return text
}

// String lists the requests that are remembered, the oldest first, one a line: when one came, what it was to do, who
// sent it, and the code of the answer.
func (c *changes) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	if left := c.count - len(c.all); left > 0 {
		fmt.Fprintf(&b, "(%d before these)\n", left)
	}
	for i := range c.all {
		var one change
		if err := json.Unmarshal(c.all[(max(c.count-len(c.all), 0)+i)%len(c.all)], &one); err != nil {
			fmt.Fprintf(&b, "(an event that cannot be read: %v)\n", err)
			continue
		}
		fmt.Fprintln(&b, &one)
	}
	return b.String()
}

// report prints the changes if the test has failed.
func (c *changes) report(t testing.TB) {
	if t.Failed() {
		t.Logf("the last requests that were to change something:\n%s", c)
	}
}
