# The commands of this project. `make` lists them.

GOLANGCI_VERSION := 2.15.0
GOVULNCHECK_VERSION := 1.9.0

# Everything that is fetched or built for the work on the project, and never
# committed.
CACHE := $(CURDIR)/.cache
GOLANGCI := $(CACHE)/bin/golangci-lint-$(GOLANGCI_VERSION)
GOVULNCHECK := $(CACHE)/bin/govulncheck-$(GOVULNCHECK_VERSION)

# How long `make fuzz` tries each fuzz test, and `make soak` makes new jobs.
FUZZTIME ?= 10s
SOAK ?= 10m

# How many requests of each kind `make attack` generates for an operation.
# `make test` generates 4: ATTACK_EXAMPLES=4 and its seed repeat a red run.
ATTACK_EXAMPLES ?= 50

# The seed of `make model`: the same in each run, or none (MODEL_SEED=) for
# another one each time.
MODEL_SEED ?= 1

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/signalbox, one static binary
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/signalbox ./cmd/signalbox

# The scheduler's tests take longest: begun first, they end beside the others.
.PHONY: test
test: ## run all tests; installs the peers that they talk to; in CI (CI=true) a skipped test fails
	go run ./internal/tools/testgate -timeout 15m -race "./internal/scheduler $(patsubst %,./%/...,$(wildcard internal cmd))" -plain ./e2e/...

.PHONY: model
model: ## let machine, operator and agents do anything: 300,000 steps of the model test
	SIGNALBOX_MODEL_SEED=$(MODEL_SEED) SIGNALBOX_MODEL_STEPS=300000 go run ./internal/tools/testgate -v -timeout 25m -run '^TestNothingThatCanHappenBreaksAPromise$$' -plain ./internal/scheduler

.PHONY: sweep
sweep: ## kill the program at every step of a job, and look what became of it
	go run ./internal/tools/testgate -timeout 15m -fault "./internal/journal ./e2e"

# What CI does of fuzzing and soaking is short, and its generated requests are the
# same each time: inputs and troubles that are new are found in many runs. Inputs
# are counted there, because Go 1.26 takes the end of a time for a failure now and
# then (go.dev/issue/75804).
.PHONY: check
check: FUZZTIME = 5000x
check: export ATTACK_SEED = 1435749837
check: SOAK = 45s
check: lint vuln test model sweep fuzz soak ## what CI runs: all of these, fuzz and soak shortly

.PHONY: lint
lint: $(GOLANGCI) ## gofmt and the linters of .golangci.yml, go vet among them
	$(GOLANGCI) run --allow-parallel-runners ./...

.PHONY: vuln
vuln: $(GOVULNCHECK) ## look for known vulnerabilities in what the code calls
	@sh internal/tools/vuln.sh $(GOVULNCHECK)

.PHONY: fuzz
fuzz: ## run each fuzz test for FUZZTIME (10s, or a number of inputs: 5000x)
	@sh internal/tools/fuzz.sh $(FUZZTIME)

.PHONY: demo
demo: ## play a whole job with scripted agents, in a directory of its own
	go run ./cmd/signalbox demo

.PHONY: bench
bench: build ## measure speed and size beside yardsticks; writes bench/results.json
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o .cache/bench/ ./bench/...
	.cache/bench/bench

.PHONY: attack
attack: ## generate more requests to every operation than make test does; takes minutes; ATTACK_SEED=n repeats a run
	ATTACK_EXAMPLES=$(ATTACK_EXAMPLES) go test -count 1 -timeout 30m -v -run 'TestGeneratedRequestsFindNoFault' ./e2e

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
