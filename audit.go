package millrace

import (
	"fmt"
	"os"
	"time"

	"github.com/millrace/millrace/internal/server/audit"
)

// AuditOptions configure audit logging. Without a policy nothing is logged.
type AuditOptions struct {
	// PolicyFile is a Policy of audit.k8s.io/v1.
	PolicyFile string
	// Log writes events to a file, and Webhook sends them.
	Log     AuditFileOptions
	Webhook AuditWebhookOptions
	// Events is given each event of audit.k8s.io/v1, as JSON that holds until it returns. Requests wait for it. Without
	// a policy these are the events of all requests that are to change something, at the level Metadata, but for
	// leases.
	Events func([]byte)
}

// AuditFileOptions say how events are written to a file.
type AuditFileOptions struct {
	// Path is the file; "-" is the standard output. Without it no file is written.
	Path string
	// MaxAge is how many days old files stay, MaxBackups how many of them, and MaxSize how many MB a file may have. 0
	// is no bound; for MaxSize it is 100.
	MaxAge, MaxBackups, MaxSize int
	// Format is json (the default) or legacy.
	Format string
	// Mode is blocking (the default), blocking-strict or batch.
	Mode string
	// Batch configures the mode batch.
	Batch AuditBatchOptions
}

// AuditWebhookOptions say how events are sent to a webhook.
type AuditWebhookOptions struct {
	// ConfigFile is a kubeconfig that names the webhook. Without it nothing is sent.
	ConfigFile string
	// Mode is batch (the default), blocking or blocking-strict.
	Mode string
	// Batch configures the mode batch.
	Batch AuditBatchOptions
	// InitialBackoff is how long to wait before the first retry: 10 seconds by default.
	InitialBackoff time.Duration
}

// AuditBatchOptions say how events are written later, so that requests do not wait for it.
type AuditBatchOptions struct {
	// BufferSize is how many events may wait: 10,000 by default. MaxSize is how many are sent together, 400 by default,
	// and MaxWait for how long they are collected, 30 seconds by default. A file gets what waits together, after 0.1
	// seconds by default.
	BufferSize, MaxSize int
	MaxWait             time.Duration
	// Throttle bounds how many batches are sent a second to QPS, beyond a burst. Without QPS a webhook is sent 10 a
	// second, beyond a burst of 15.
	Throttle bool
	QPS      float64
	Burst    int
}

// changesPolicy is that of Events.
const changesPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
	{"level": "None", "verbs": ["get", "list", "watch"]},
	{"level": "None", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
	{"level": "Metadata"}
]}`

// options returns what the server is told; without a policy, nothing is to be written down.
func (o *AuditOptions) options() (audit.Options, error) {
	if o.Log.Path == "" && o.Webhook.ConfigFile == "" && o.Events == nil {
		return audit.Options{}, nil
	}
	l, w := o.Log, o.Webhook
	policy, err := o.policy()
	return audit.Options{
		Policy: policy, Events: o.Events,
		File: audit.FileOptions{
			Path: l.Path, MaxAge: l.MaxAge, MaxBackups: l.MaxBackups, MaxSize: l.MaxSize, Format: l.Format, Mode: l.Mode, Batch: audit.BatchOptions(l.Batch),
		},
		Webhook: audit.WebhookOptions{ConfigFile: w.ConfigFile, Mode: w.Mode, Batch: audit.BatchOptions(w.Batch), InitialBackoff: w.InitialBackoff},
	}, err
}

// policy reads the policy; nil if nothing is to be written down.
func (o *AuditOptions) policy() (*audit.Policy, error) {
	if o.PolicyFile == "" {
		if o.Events == nil {
			return nil, nil
		}
		return audit.ParsePolicy([]byte(changesPolicy))
	}
	text, err := os.ReadFile(o.PolicyFile)
	if err != nil {
		return nil, fmt.Errorf("loading audit policy file: failed to read file path %q: %w", o.PolicyFile, err)
	}
	policy, err := audit.ParsePolicy(text)
	if err != nil {
		return nil, fmt.Errorf("loading audit policy file: %w: from file %s", err, o.PolicyFile)
	}
	return policy, nil
}
