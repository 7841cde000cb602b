package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace"
)

// auditFlags say what is written down of requests, and encryptionFlags what is encrypted, under kube-apiserver's names.
type auditFlags struct {
	audit      millrace.AuditOptions
	encryption millrace.EncryptionOptions
}

func (f *auditFlags) add(fl *pflag.FlagSet) {
	a, l, w := &f.audit, &f.audit.Log, &f.audit.Webhook
	fl.StringVar(&a.PolicyFile, "audit-policy-file", "", "what is written down of requests: a Policy of audit.k8s.io/v1")
	fl.StringVar(&l.Path, "audit-log-path", "", `file of audit events; "-" is the standard output`)
	fl.IntVar(&l.MaxAge, "audit-log-maxage", 0, "how many days old audit logs stay; 0 is no bound")
	fl.IntVar(&l.MaxBackups, "audit-log-maxbackup", 0, "how many old audit logs stay; 0 is no bound")
	fl.IntVar(&l.MaxSize, "audit-log-maxsize", 100, "how many MB an audit log may have before another is begun")
	fl.StringVar(&l.Format, "audit-log-format", "json", "json or legacy")
	fl.StringVar(&l.Mode, "audit-log-mode", "blocking", "blocking, blocking-strict or batch")
	fl.IntVar(&l.Batch.BufferSize, "audit-log-batch-buffer-size", 10000, "how many events may wait in the mode batch")
	fl.IntVar(&l.Batch.MaxSize, "audit-log-batch-max-size", 1, "how many events are written at once in the mode batch")
	fl.DurationVar(&l.Batch.MaxWait, "audit-log-batch-max-wait", 0, "how long a batch is gathered")
	fl.StringVar(&w.ConfigFile, "audit-webhook-config-file", "", "kubeconfig of a webhook that audit events are sent to")
	fl.StringVar(&w.Mode, "audit-webhook-mode", "batch", "batch, blocking or blocking-strict")
	fl.IntVar(&w.Batch.BufferSize, "audit-webhook-batch-buffer-size", 10000, "how many events may wait in the mode batch")
	fl.IntVar(&w.Batch.MaxSize, "audit-webhook-batch-max-size", 400, "how many events are sent at once")
	fl.DurationVar(&w.Batch.MaxWait, "audit-webhook-batch-max-wait", 30*time.Second, "how long a batch is gathered")
	fl.BoolVar(&w.Batch.Throttle, "audit-webhook-batch-throttle-enable", true, "bound the rate of batches")
	fl.Float64Var(&w.Batch.QPS, "audit-webhook-batch-throttle-qps", 10, "how many batches are sent a second")
	fl.IntVar(&w.Batch.Burst, "audit-webhook-batch-throttle-burst", 15, "how many batches may be sent at once")
	fl.DurationVar(&w.InitialBackoff, "audit-webhook-initial-backoff", 10*time.Second, "how long to wait before the first retry")
	fl.StringVar(&f.encryption.File, "encryption-provider-config", "", "what is encrypted in the store: an EncryptionConfiguration of apiserver.config.k8s.io/v1")
	fl.BoolVar(&f.encryption.Reload, "encryption-provider-config-automatic-reload", false, "follow changes of that file")
}

// files are those that the flags name.
func (f *auditFlags) files() map[string]string {
	return map[string]string{"audit-policy-file": f.audit.PolicyFile, "audit-webhook-config-file": f.audit.Webhook.ConfigFile,
		"encryption-provider-config": f.encryption.File}
}
