package differences_test

import (
	"fmt"
	"time"
)

func jobScenarios() []scenario {
	const one = "jobs/one"
	make := func(more, annotations, podSpec string) request {
		if podSpec == "" {
			podSpec = never
		}
		return create("jobs", "one", fmt.Sprintf("spec: {template: %s%s}", template("one", annotations, podSpec), also(more)))
	}
	const forEver = "run-for=1h"
	failing := func(code string) string { return "run-for=500ms exit-code=" + code }
	policy := func(rules string) string { return "podFailurePolicy: {rules: [" + rules + "]}" }
	exits := func(action string, codes string) string {
		return fmt.Sprintf("{action: %s, onExitCodes: {operator: In, values: [%s]}}", action, codes)
	}
	cond := func(action string) string {
		return fmt.Sprintf("{action: %s, onPodConditions: [{type: DisruptionTarget, status: 'True'}]}", action)
	}
	long := 6 * time.Second
	var out []scenario
	for _, n := range [][2]int{{1, 1}, {3, 1}, {3, 2}, {2, 5}, {0, 1}, {4, 0}} {
		out = append(out, story(fmt.Sprintf("job, %d completions of which %d at a time", n[0], n[1]), do(make(fmt.Sprintf("completions: %d, parallelism: %d", n[0], n[1]), "", "")).settling(10*time.Second),
			do(spec(one, "parallelism: 2")).settling(long), do(remove(one, background))))
		out = append(out, story(fmt.Sprintf("job, indexed, %d completions of which %d at a time", n[0], n[1]), do(make(fmt.Sprintf("completionMode: Indexed, completions: %d, parallelism: %d", n[0], n[1]), "", "")).settling(10*time.Second),
			do(spec(one, "parallelism: 3")).settling(long)))
	}
	for i, limit := range []string{"backoffLimit: 0", "backoffLimit: 1", "backoffLimit: 2, parallelism: 2, completions: 2", "backoffLimit: 1, completionMode: Indexed, completions: 2, parallelism: 2",
		"completionMode: Indexed, completions: 2, parallelism: 2, backoffLimitPerIndex: 0", "completionMode: Indexed, completions: 3, parallelism: 1, backoffLimitPerIndex: 0, maxFailedIndexes: 1",
		"completionMode: Indexed, completions: 4, parallelism: 2, backoffLimitPerIndex: 0, maxFailedIndexes: 0"} {
		out = append(out, story(fmt.Sprint("job, failing ", i), do(make(limit, failing("1"), "")).settling(15*time.Second)),
			story(fmt.Sprint("job, failing and replaced late ", i), do(make("podReplacementPolicy: Failed, "+limit, failing("1"), "")).settling(15*time.Second)))
	}
	for i, rules := range []string{exits("FailJob", "1, 3"), exits("Ignore", "3") + ", " + exits("FailJob", "1"), exits("Count", "3"), exits("FailJob", "7"),
		"{action: FailJob, onExitCodes: {containerName: main, operator: NotIn, values: [0, 1]}}", cond("Ignore"), cond("FailJob"), cond("Count")} {
		out = append(out, story(fmt.Sprint("job, failure policy ", i), do(make("backoffLimit: 1, "+policy(rules), failing("3"), "")).settling(15*time.Second)),
			story(fmt.Sprint("job, failure policy and eviction ", i), do(make("backoffLimit: 0, "+policy(rules), forEver, "")), do(evict("{one:0}")).settling(long)))
	}
	for i, rules := range []string{"{succeededIndexes: '0'}", "{succeededCount: 2}", "{succeededIndexes: 0-2, succeededCount: 1}"} {
		out = append(out, story(fmt.Sprint("job, success policy ", i), do(make("completionMode: Indexed, completions: 4, parallelism: 1, successPolicy: {rules: ["+rules+"]}", "", "")).settling(12*time.Second)))
	}
	return append(out,
		story("job, index fails at once by policy", do(make("completionMode: Indexed, completions: 3, parallelism: 3, backoffLimitPerIndex: 2, "+policy(exits("FailIndex", "3")), failing("3"), "")).settling(10*time.Second)),
		story("job, work queue", do(make("parallelism: 3", "", "")).settling(10*time.Second)),
		story("job, parallelism of a running one", do(make("completions: 6, parallelism: 4", forEver, "")), do(spec(one, "parallelism: 1")), do(spec(one, "parallelism: 0")), do(spec(one, "parallelism: 3"))),
		story("job, elastic", do(make("completionMode: Indexed, completions: 3, parallelism: 3", forEver, "")), do(spec(one, "completions: 5, parallelism: 5")), do(spec(one, "completions: 1, parallelism: 1")).settling(long)),
		story("job, suspended", do(make("suspend: true, completions: 2, parallelism: 2", forEver, "")), do(spec(one, "suspend: false")), do(spec(one, "suspend: true")).settling(long), do(spec(one, "suspend: false")).settling(long)),
		story("job, suspended with a change", do(make("suspend: true", "", "")), do(strategic(one, "spec: {template: {metadata: {labels: {more: one}}, spec: {nodeSelector: {kubernetes.io/os: linux}}}}")), do(spec(one, "suspend: false")).settling(long)),
		story("job, too long", do(make("activeDeadlineSeconds: 3, parallelism: 2", forEver, "")).settling(8*time.Second)),
		story("job, too long while suspended", do(make("activeDeadlineSeconds: 3", forEver, "")).settling(time.Second), do(spec(one, "suspend: true")).settling(long), do(spec(one, "suspend: false")).settling(8*time.Second)),
		story("job, removed when it has finished", do(make("ttlSecondsAfterFinished: 4", "", "")), do().settling(8*time.Second)),
		story("job, removed at once", do(make("ttlSecondsAfterFinished: 0", "", "")).settling(6*time.Second)),
		story("job, to be removed later", do(make("", "", "")).settling(long), do(spec(one, "ttlSecondsAfterFinished: 3")).settling(long)),
		story("job, failed and removed", do(make("backoffLimit: 0, ttlSecondsAfterFinished: 3", failing("1"), "")).settling(8*time.Second)),
		story("job, of another controller", do(make("managedBy: example.com/mine", "", "")), do(remove(one, background))),
		story("job, containers start again", do(make("backoffLimit: 2", "crashes=1", "restartPolicy: OnFailure, "+oneContainer)).settling(15*time.Second)),
		story("job, containers start again too often", do(make("backoffLimit: 0", "crashes=9", "restartPolicy: OnFailure, "+oneContainer)).settling(15*time.Second)),
		story("job, own selector", do(createFull("jobs", "metadata: {name: one}\nspec: {manualSelector: true, selector: {matchLabels: {app: one}}, template: "+template("one", "", never)+"}")).settling(long)),
		story("job, own selector and a pod to adopt", do(pod("loner", "app: one", forEver, never)), do(createFull("jobs", "metadata: {name: one}\nspec: {manualSelector: true, selector: {matchLabels: {app: one}}, template: "+template("one", forEver, never)+"}")), do(patch("pods/loner", "metadata: {labels: {app: other}}"))),
		story("job, pod deleted", do(make("", forEver+" stop-delay=3s", "")), do(remove("pods/{one:0}", "")).settling(long)),
		story("job, pod deleted and replaced late", do(make("podReplacementPolicy: Failed", forEver+" stop-delay=4s", "")), do(remove("pods/{one:0}", "")).settling(time.Second), do().settling(8*time.Second)),
		story("job, pod of an index deleted", do(make("completionMode: Indexed, completions: 2, parallelism: 2", forEver+" stop-delay=3s", "")), do(remove("pods/{one-0:0}", "")).settling(long)),
		story("job, orphaned", do(make("parallelism: 2", forEver, "")), do(remove(one, orphan))),
		story("job, deleted in the foreground", do(make("parallelism: 2", forEver, "")), do(remove(one, foreground))),
		story("job, with too little quota", do(create("resourcequotas", "few", "spec: {hard: {pods: 1}}")), do(make("parallelism: 3, completions: 3", forEver, "")), do(spec(one, "parallelism: 1"))),
		story("job, finished and deleted pods", do(make("completions: 2", "", "")).settling(8*time.Second), do(remove("pods/{one:0}", ""), remove("pods/{one:1}", ""))),
		story("job, pods that cannot be placed", do(make("activeDeadlineSeconds: 4", "", "nodeSelector: {none: none}, "+never)), do().settling(long)),
		story("job, with an init container that fails", do(make("backoffLimit: 0", "exit-code.init=2", "restartPolicy: Never, initContainers: [{name: init, image: 'init:1'}], "+oneContainer)).settling(long)),
		story("job, backoff per index and a limit", do(make("completionMode: Indexed, completions: 2, parallelism: 2, backoffLimitPerIndex: 3, backoffLimit: 1", failing("1"), "")).settling(20*time.Second)),
	)
}

func cronScenarios() []scenario {
	const tick = "cronjobs/tick"
	make := func(schedule, more, jobMore, annotations string) request {
		return create("cronjobs", "tick", fmt.Sprintf("spec: {schedule: %q%s, jobTemplate: {metadata: {labels: {of: tick}, annotations: {a: b}}, spec: {template: %s%s}}}", schedule, also(more), template("tick", annotations, never), also(jobMore)))
	}
	first := "^jobs/tick-MINUTE "
	second := "^jobs/tick-MINUTE 2 "
	suspended := do(spec(tick, "suspend: true")).settling(5 * time.Second)
	var out []scenario
	for _, p := range []string{"Allow", "Forbid", "Replace"} {
		out = append(out, story("cronjob, "+p, do(make("* * * * *", "concurrencyPolicy: "+p, "", "")).awaiting(first), suspended, do(remove(tick, background))))
	}
	return append(out,
		story("cronjob, two at a time", do(make("* * * * *", "concurrencyPolicy: Allow", "", "run-for=1h")).awaiting(second), suspended, do(remove("jobs/{tick:0}", background))),
		story("cronjob, replaced", do(make("* * * * *", "concurrencyPolicy: Replace", "", "run-for=1h")).awaiting("^event Normal SuccessfulDelete by cronjob-controller"), suspended),
		story("cronjob, forbidden", do(make("* * * * *", "concurrencyPolicy: Forbid", "", "run-for=1h")).awaiting("^event Normal JobAlreadyActive by cronjob-controller"), suspended),
		story("cronjob, suspended", do(make("* * * * *", "suspend: true", "", "")).settling(65*time.Second)),
		story("cronjob, time zone", do(make("* * * * *", "timeZone: Asia/Kathmandu", "", "")).awaiting(first), suspended),
		story("cronjob, unknown time zone", do(make("* * * * *", "timeZone: Mars/Olympus", "", ""))),
		story("cronjob, schedule with a time zone", do(make("TZ=UTC * * * * *", "", "", ""))),
		story("cronjob, deadline", do(make("* * * * *", "startingDeadlineSeconds: 30", "", "")).awaiting(first), suspended),
		story("cronjob, never", do(make("0 0 31 2 *", "", "", ""))),
		story("cronjob, failing job", do(make("* * * * *", "failedJobsHistoryLimit: 0", "backoffLimit: 0", "run-for=500ms exit-code=1")).awaiting("^event Normal SuccessfulDelete by cronjob-controller"), suspended),
		story("cronjob, no history", do(make("* * * * *", "successfulJobsHistoryLimit: 0", "", "")).awaiting("^event Normal SuccessfulDelete by cronjob-controller"), suspended),
		story("cronjob, job deleted", do(make("* * * * *", "", "", "run-for=1h")).awaiting(first), do(spec(tick, "suspend: true"), remove("jobs/{tick:0}", background)).settling(5*time.Second)),
		story("cronjob, with too little quota", do(create("resourcequotas", "none", "spec: {hard: {count/jobs.batch: 0}}")), do(make("* * * * *", "", "", "")).awaiting("^event Warning FailedCreate")),
		story("cronjob, invalid job", do(make("* * * * *", "", "backoffLimit: 1, podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {containerName: nobody, operator: In, values: [1]}}]}", ""))),
		story("cronjob, adopts nothing", do(createFull("jobs", "metadata: {name: tick-1, labels: {of: tick}}\nspec: {template: "+template("tick", "run-for=1h", never)+"}"), make("@yearly", "", "", ""))),
	)
}
