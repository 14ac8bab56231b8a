# The commands of this project. `make` lists them.

GOLANGCI_VERSION := 2.15.0
GOVULNCHECK_VERSION := 1.9.0

# Everything that is fetched or built for the work on the project, and never
# committed.
CACHE := $(CURDIR)/.cache
GOLANGCI := $(CACHE)/bin/golangci-lint-$(GOLANGCI_VERSION)
GOVULNCHECK := $(CACHE)/bin/govulncheck-$(GOVULNCHECK_VERSION)

# How long `make fuzz` tries each fuzz test. CI does not: what fuzzing finds is
# by chance, and `make test` runs each fuzz test on its seeds.
FUZZTIME ?= 10s

# How long `make soak` makes new jobs.
SOAK ?= 10m

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/signalbox, one static binary
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/signalbox ./cmd/signalbox

.PHONY: test
test: ## run all tests; installs the peers that they talk to; in CI (CI=true) a skipped test fails
	go run ./internal/tools/testgate -timeout 15m -race "$(patsubst %,./%/...,$(wildcard internal cmd))" -plain ./e2e/...

.PHONY: model
model: ## let machine, operator and agents do anything: 300,000 steps of the model test
	SIGNALBOX_MODEL_STEPS=300000 go run ./internal/tools/testgate -v -timeout 15m -run '^TestNothingThatCanHappenBreaksAPromise$$' -plain ./internal/scheduler

.PHONY: sweep
sweep: ## kill the program at every step of a job, and look what became of it
	go run ./internal/tools/testgate -timeout 15m -fault "./internal/journal ./e2e"

.PHONY: check
check: lint vuln test model sweep ## what CI runs: lint, vuln, test, model and sweep

.PHONY: lint
lint: $(GOLANGCI) ## gofmt and the linters of .golangci.yml, go vet among them
	$(GOLANGCI) run --allow-parallel-runners ./...

.PHONY: vuln
vuln: $(GOVULNCHECK) ## look for known vulnerabilities in what the code calls
	@sh internal/tools/vuln.sh $(GOVULNCHECK)

.PHONY: fuzz
fuzz: ## run each fuzz test for FUZZTIME (10s)
	@grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' internal | while IFS=: read -r file func; do \
		go test -run '^$$' -fuzz "^$${func#func }\$$" -fuzztime $(FUZZTIME) "./$${file%/*}" || exit 1; \
	done

.PHONY: demo
demo: ## play a whole job with scripted agents, in a directory of its own
	go run ./cmd/signalbox demo

.PHONY: bench
bench: build ## measure speed and size beside yardsticks; writes bench/results.json
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o .cache/bench/ ./bench/...
	.cache/bench/bench

.PHONY: attack
attack: ## generate requests to every operation with Schemathesis, others each time; not in CI; takes minutes
	ATTACK_SEED=random ATTACK_EXAMPLES=50 go test -tags attack -count 1 -timeout 30m -v -run 'TestGeneratedRequestsFindNoFault' ./e2e

.PHONY: live
live: ## have a real small model on this machine do a job; fetches 125 MB; not in CI
	go test -tags live -count 1 -timeout 20m -v -run 'TestLiveModelDoesAJob' ./e2e

.PHONY: soak
soak: build ## ten minutes (SOAK=10m) of jobs, crashes and slow readers; nothing may be left over
	go run ./e2e/soak -binary bin/signalbox -for $(SOAK)

.PHONY: peers
peers: ## install the agents and clients of the tests into .cache/peers
	go run ./e2e/peers/install

.PHONY: recording
recording: ## run the program on a terminal and draw docs/recording.svg, the picture of README
	go run ./internal/tools/recording docs/recording.svg

.PHONY: clean
clean: ## remove what was built and fetched
	rm -rf bin coverage $(CACHE)

$(GOLANGCI):
	GOBIN=$(@D) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$(GOLANGCI_VERSION)
	mv $(@D)/golangci-lint $@

$(GOVULNCHECK):
	GOBIN=$(@D) go install golang.org/x/vuln/cmd/govulncheck@v$(GOVULNCHECK_VERSION)
	mv $(@D)/govulncheck $@
