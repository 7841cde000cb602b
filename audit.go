package millrace

import (
	"fmt"
	"os"

	"github.com/millrace/millrace/internal/server/audit"
)

// AuditOptions configure audit logging. Without a policy nothing is logged.
type AuditOptions struct {
	// PolicyFile is a Policy of audit.k8s.io/v1.
	PolicyFile string
	Log        audit.FileOptions
	Webhook    audit.WebhookOptions
	// Events is given each event of audit.k8s.io/v1, as JSON that holds until it returns. Requests wait for it. Without a policy these are the
	// events of all requests that are to change something, at the level Metadata, but for leases.
	Events func([]byte)
}

// changesPolicy is that of Events.
const changesPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
	{"level": "None", "verbs": ["get", "list", "watch"]},
	{"level": "None", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
	{"level": "Metadata"}
]}`

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

// openAudit opens the audit log, if there is one.
func (c *Cluster) openAudit() (*audit.Log, error) {
	o := &c.options.Audit
	if o.Log.Path == "" && o.Webhook.ConfigFile == "" && o.Events == nil {
		return nil, nil
	}
	policy, err := o.policy()
	if policy == nil || err != nil {
		return nil, err
	}
	log, err := audit.Open(audit.Options{Policy: policy, File: o.Log, Webhook: o.Webhook, Events: o.Events, Logger: c.options.Logger})
	if err != nil {
		return nil, err
	}
	c.opened("audit log", log.Close)
	c.run("audit", log.Run)
	return log, nil
}
