// Starts the page: makes its parts and connects them.

import { Api, takeToken } from "./api.js";
import { Approvals } from "./approvals.js";
import { Bar } from "./bar.js";
import { ChainPane } from "./chain.js";
import { showComparison } from "./compare.js";
import { bindConnection, tokenField } from "./connection.js";
import { fill, h } from "./dom.js";
import { emptyStore } from "./emptystore.js";
import { ExperimentList } from "./experiments.js";
import { showFileHistory } from "./filehistory.js";
import { bindKeys, showHelp } from "./keys.js";
import { Live } from "./live.js";
import { MoveList } from "./movelist.js";
import { Moves } from "./moves.js";
import { bindResize } from "./resize.js";
import { readRoute, writeExperiment, writeRoute } from "./route.js";
import { isTurn } from "./row.js";
import { Search } from "./search.js";
import { copyTurn, shareTurn } from "./share.js";
import { State } from "./state.js";
import { bindTheme } from "./theme.js";
import { ThreadsPane } from "./threads.js";
import { TimelinePane } from "./timeline.js";
import { Toasts } from "./toast.js";
import { TurnPane } from "./turn.js";

const byId = (id) => document.getElementById(id);
const settle = 120; // ms that the selection rests before its turn is loaded
const eventPause = 150; // ms in which events of the same thread become one refresh

const movesHead = new Set(["undo", "redo", "restore", "op-undo"]);

class Page {
  #chooseTimer = 0;
  #refreshTimer = 0;
  #threadsTimer = 0;
  #sources = new Map(); // the source of each fork
  #deleted = new Set(); // threads that the page left because they are deleted

  constructor(token) {
    const state = (this.state = new State());
    const api = (this.api = new Api(token, () => state.set({ connection: "expired" })));
    const onError = (err) => this.fail(err);
    this.toasts = new Toasts(byId("toasts"));
    this.moves = new Moves({ api, state, toasts: this.toasts, onMoved: (result) => this.moved(result), onHistory: (change, thread) => this.showFileHistory(change, thread), onError });
    this.threads = new ThreadsPane(byId("threads"), { api, state, onError, onOpen: (id) => this.open(id) });
    this.experiments = new ExperimentList(byId("threads"), { api, state, onError, onOpen: (name) => this.openExperiment(name) });
    this.chain = new ChainPane(byId("chain"), { api, state, onError, onOpen: (thread, checkpoint) => this.open(thread, checkpoint) });
    this.bar = new Bar(byId("undo"), { api, state, moves: this.moves, onError });
    state.on("threads", (threads) => threads.forEach((t) => t.forked_from && this.#sources.set(t.id, t.forked_from.thread)));
    this.moveList = new MoveList(byId("turn"), { api, state, moves: this.moves, onOpen: (thread, checkpoint) => this.open(thread, checkpoint), onClose: () => this.turn.show(state.selected), onError });
    const moves = this.moves;
    const actions = {
      undo: (t) => moves.undo(t), undoOnly: (t) => moves.undoOnly(t), redo: (t) => moves.redo(t), restore: (t) => moves.restore(t), fork: (t) => moves.fork(t),
      pin: (t) => moves.pin(t), unpin: (t, name) => moves.unpin(t, name), rename: (t) => moves.rename(t), remove: (t) => moves.remove(t),
      compare: (t) => this.compare(t), comparePresent: () => this.showCompared("present"), endCompare: () => this.endCompare(),
      open: (thread, checkpoint) => this.open(thread, checkpoint),
      copy: (t) => copyTurn(api, t, this.toasts).catch(onError), share: (t) => shareTurn(api, t, this.toasts).catch(onError),
      bringBack: (change, before, thread) => moves.bringBack([change], before, thread), bringBackAll: (changes, before, thread) => moves.bringBack(changes, before, thread),
      fileHistory: (change, thread) => this.showFileHistory(change, thread),
    };
    this.actions = actions;
    this.timeline = new TimelinePane(byId("timeline"), { api, state, actions, onError, onChoose: (row) => this.choose(row), onOpen: () => this.pane("turn") });
    this.approvals = new Approvals(this.timeline.approvalPlace, { api, state, moves, onError });
    this.turn = new TurnPane(byId("turn"), { api, state, actions, onError });
    this.search = new Search(byId("search"), { api, state, actions, onError, onOpen: (thread, checkpoint) => this.open(thread, checkpoint).then(() => this.pane("turn")) });
    this.live = new Live(api, (name, data) => this.event(name, data), (connection) => state.set({ connection }));
    bindResize(document.querySelector(".panes"));
    bindConnection(state, { place: byId("connection"), banner: byId("banner"), onRetry: () => this.live.retry() });
    this.commands = this.#commands();
    bindKeys(this.commands, (command) => !state.experiment || command.everywhere); // a move needs the timeline in view
    byId("help").addEventListener("click", () => showHelp(this.commands));
    byId("moves").addEventListener("click", () => this.showMoves());
    byId("back").addEventListener("click", () => this.back());
    addEventListener("popstate", () => this.followRoute());
    addEventListener("hashchange", () => this.followRoute());
  }

  // start requests the thread of the address at once, and the lists beside it.
  async start() {
    const { thread, experiment } = readRoute();
    if (thread || experiment) this.followRoute();
    try {
      const [store] = await Promise.all([this.api.get("store"), this.threads.load(), this.experiments.load().catch((err) => this.fail(err))]);
      this.state.set({ store });
      fill(byId("store"), h("span", { class: "dim" }, [store.name || store.kind, store.read_only && "read only"].filter(Boolean).join(", ")));
    } catch (err) {
      this.fail(err);
    }
    if (!thread && !experiment) this.followRoute();
    this.live.retry();
  }

  // followRoute shows the experiment or the thread of the address, or else the thread of the directory.
  followRoute() {
    const { thread, checkpoint, experiment } = readRoute();
    if (experiment) {
      this.openExperiment(experiment);
      return;
    }
    this.closeExperiment();
    const known = this.state.threads.find((t) => t.current) ?? this.state.threads[0];
    const id = thread || this.state.store?.current?.thread || known?.id;
    if (id && (id !== this.state.thread || checkpoint !== this.state.selected)) this.open(id, checkpoint);
    else if (!id) {
      this.pane("timeline");
      this.timeline.showEmpty(emptyStore({ toasts: this.toasts, onDemo: this.state.store?.demo ? () => this.makeDemo() : null }));
    }
  }

  // makeDemo makes the demo and shows its last turn. It reports whether that succeeded.
  async makeDemo() {
    try {
      const { thread, head } = await this.api.post("demo", {});
      await this.threads.load();
      await this.open(thread, head);
      return true;
    } catch (err) {
      this.fail(err);
      return false;
    }
  }

  // openExperiment shows the generations of an experiment in place of the timeline.
  openExperiment(name) {
    clearTimeout(this.#chooseTimer); // else a row that was chosen just now would take the address
    this.endCompare();
    writeExperiment(name);
    document.body.dataset.view = "experiment";
    this.pane("chain");
    this.state.set({ experiment: name });
    byId("chain").focus({ preventScroll: true });
    return this.chain.show(name);
  }

  closeExperiment() {
    if (!this.state.experiment) return;
    delete document.body.dataset.view;
    this.state.set({ experiment: "" });
    this.chain.close();
    if (document.body.dataset.pane === "chain") this.pane("timeline");
  }

  // open shows a thread, and a checkpoint of it.
  async open(thread, checkpoint = "") {
    const isBack = Boolean(this.state.experiment);
    this.closeExperiment();
    this.pane("timeline");
    this.endCompare();
    if (thread === this.state.thread) {
      if (isBack) writeRoute(thread, checkpoint || this.state.selected);
      if (checkpoint) await this.timeline.show(checkpoint);
      return;
    }
    clearTimeout(this.#chooseTimer); // its row is of the other thread
    this.state.set({ thread, selected: "" });
    await this.timeline.load(thread, checkpoint);
    if (!document.activeElement.matches("input, textarea")) this.timeline.focus(); // the user may type into the search by now
  }

  // choose shows a row's turn once the selection rests; while keys repeat, it would load each one.
  choose(row) {
    clearTimeout(this.#chooseTimer);
    this.#chooseTimer = setTimeout(() => {
      if (this.state.from && row.id !== this.state.from) {
        this.showCompared(row.id, row);
        return;
      }
      writeRoute(this.state.thread, row.id);
      if (this.state.selected === row.id && this.turn.shown !== row.id) this.turn.show(row.id); // the pane shows a file or a comparison
      this.state.set({ selected: row.id });
    }, this.state.selected ? settle : 0);
  }

  compare(turn) {
    this.fromName = isTurn(turn) ? `t${turn.turn}` : turn.kind;
    this.state.set({ from: turn.id });
    this.timeline.list.invalidate();
    this.pane("timeline");
    this.timeline.focus();
  }

  showCompared(to, row) {
    const names = { from: this.fromName, to: to === "present" ? "the files now" : isTurn(row) ? `t${row.turn}` : row.kind };
    this.pane("turn");
    showComparison(byId("turn"), { api: this.api, from: this.state.from, to, names, actions: this.actions, onClose: () => this.endCompare(), onError: (err) => this.fail(err) });
  }

  // showFileHistory shows the turns of a thread that touched a path in place of the turn. The default is the present thread.
  showFileHistory(change, thread = this.state.thread) {
    this.pane("turn");
    this.turn.shown = "";
    showFileHistory(byId("turn"), { api: this.api, thread, title: thread === this.state.thread ? "" : this.state.threads.find((t) => t.id === thread)?.title, change, actions: this.actions,
      onClose: () => this.turn.show(this.state.selected), onError: (err) => this.fail(err) });
  }

  // showMoves lists the moves in the directory of the thread in place of the turn.
  showMoves() {
    this.pane("turn");
    this.turn.shown = "";
    this.moveList.show();
  }

  endCompare() {
    if (!this.state.from) return;
    this.state.set({ from: "" });
    this.timeline.list.invalidate();
    const row = this.timeline.current;
    if (row) this.state.set({ selected: row.id });
    this.turn.show(this.state.selected);
  }

  // event handles one event of the server.
  event(name, data) {
    if (name === "hello") {
      this.refreshThreads();
      this.refreshTimeline();
      this.bar.refresh();
      return;
    }
    if (name !== "thread") return;
    if (data.thread === this.state.thread) {
      this.refreshTimeline();
      this.bar.refresh();
    }
    this.refreshThreads();
  }

  refreshTimeline() {
    this.#refreshTimer ||= setTimeout(async () => {
      const { selected } = this.state;
      await this.timeline.refresh();
      this.#refreshTimer = 0;
      const row = this.timeline.current;
      if (!this.state.from && row?.id === selected && this.turn.shown === selected && this.turn.isOutdated(row)) this.turn.show(selected, { keepScroll: true });
    }, eventPause);
  }

  refreshThreads() {
    this.#threadsTimer ||= setTimeout(async () => {
      try {
        await Promise.all([this.threads.load(), this.experiments.load(), this.chain.refresh()]);
      } catch (err) {
        if (err.kind !== "offline") this.fail(err);
      }
      this.#threadsTimer = 0;
      this.toasts.check();
      if (!this.state.thread && !this.state.experiment) this.followRoute();
    }, eventPause * 2);
  }

  // moved follows a move: to the new thread of a fork, and away from a deleted one.
  async moved(result) {
    const { choices } = this.timeline;
    const isGone = result.verb === "delete" || (result.forgot && result.forgot === this.state.thread);
    if (isGone) {
      this.#deleted.add(result.forgot || result.thread);
      this.state.set({ thread: "", selected: "" }); // nothing may read the thread from now on
    }
    this.bar.refresh(true);
    await this.threads.load().catch((err) => this.fail(err));
    if (result.verb === "fork" && result.fork?.thread) {
      await this.open(result.fork.thread);
      return;
    }
    if (isGone) {
      this.leave(result.verb === "delete" ? "" : result.thread);
      return;
    }
    await this.timeline.refresh();
    await this.approvals.load();
    if (choices !== this.timeline.choices) return; // the user has selected another row meanwhile
    if (result.head && result.thread === this.state.thread && movesHead.has(result.verb)) await this.timeline.show(result.head);
    this.turn.show(this.state.selected, { keepScroll: true });
  }

  // leave shows another thread in place of a deleted one.
  leave(instead) {
    history.replaceState(null, "", location.pathname);
    if (instead) this.open(instead);
    else this.followRoute();
  }

  async fail(err) {
    if (err.name === "AbortError" || err.kind === "offline" || err.status === 401) return; // the banner shows these
    const { thread } = this.state;
    if (err.kind === "not_found" && thread && (await this.#isDeleted(thread))) {
      this.#deleted.add(thread);
      if (thread === this.state.thread) {
        this.state.set({ thread: "", selected: "" });
        this.leave(this.#sources.get(thread) ?? "");
      }
    }
    if (err.kind === "not_found" && [...this.#deleted].some((id) => err.message.includes(id))) return; // a request that was under way
    this.toasts.show(err.message, { hint: err.hint, error: true });
  }

  // isDeleted asks the server whether a thread is deleted, for example by the undo of a fork in another tab.
  async #isDeleted(thread) {
    try {
      await this.api.get(`threads/${encodeURIComponent(thread)}`);
    } catch (err) {
      return err.kind === "not_found";
    }
    return false;
  }

  // pane chooses the pane that a narrow screen shows.
  pane(name) {
    document.body.dataset.pane = name;
  }

  back() {
    this.pane(document.body.dataset.pane === "turn" ? "timeline" : "threads");
  }

  escape() {
    const { experiment, thread, selected } = this.state;
    if (experiment && thread) this.open(thread, selected);
    else if (this.state.from) this.endCompare();
    else if (byId("turn").contains(document.activeElement)) this.timeline.focus();
    this.back();
  }

  nextThread(by) {
    const { threads, thread } = this.state;
    const next = threads[threads.findIndex((t) => t.id === thread) + by];
    if (next) this.open(next.id);
  }

  // act runs a move on the selected checkpoint, if its kind allows it.
  act(run, needsTurn = false) {
    const row = this.timeline.current;
    if (!row) return;
    if (needsTurn && !isTurn(row)) this.toasts.show("Select a turn first: this checkpoint is not one.");
    else run(row);
  }

  #commands() {
    const { moves, timeline } = this;
    return [
      { keys: ["j", "ArrowDown"], text: "next checkpoint, an older one", run: () => { timeline.focus(); timeline.move(1); } },
      { keys: ["k", "ArrowUp"], text: "previous checkpoint, a newer one", run: () => { timeline.focus(); timeline.move(-1); } },
      { keys: ["g"], text: "newest checkpoint", run: () => timeline.select(Infinity) },
      { keys: ["G"], text: "oldest checkpoint", run: () => timeline.select(0) },
      { keys: ["ArrowRight", "ArrowLeft"], text: "show or hide the undone turns at a checkpoint", run: () => {} },
      { keys: ["Enter", "o"], text: "go to the turn", run: () => { this.pane("turn"); byId("turn").focus(); } },
      { keys: ["["], text: "previous thread", run: () => this.nextThread(-1) },
      { keys: ["]"], text: "next thread", run: () => this.nextThread(1) },
      { keys: ["u"], text: "undo the last turn, after a look at the differences", run: () => this.bar.preview("undo") },
      { keys: ["r"], text: "redo the last undo, after a look at the differences", run: () => this.bar.preview("redo") },
      { keys: ["b"], text: "bring back the files that the selected turn deleted", run: () => this.turn.bringBackDeleted() },
      { keys: ["U"], text: "undo back to the selected turn, or redo up to it", run: () => this.act((t) => (t.on_line === false ? moves.redo(t) : moves.undo(t)), true) },
      { keys: ["R"], text: "restore the selected checkpoint", run: () => this.act((t) => moves.restore(t)) },
      { keys: ["f"], text: "fork files and chat", run: () => this.act((t) => moves.fork(t)) },
      { keys: ["p"], text: "pin the checkpoint", run: () => this.act((t) => moves.pin(t)) },
      { keys: ["c"], text: "compare with another checkpoint", run: () => this.act((t) => this.compare(t)) },
      { keys: ["a"], text: "approve the call that waits", run: () => this.approvals.decide("approve") },
      { keys: ["x"], text: "reject the call that waits", run: () => this.approvals.decide("reject") },
      { keys: ["z"], text: "undo the last move", run: () => this.toasts.undo?.() },
      { keys: ["m"], text: "all moves, each with its undo", run: () => this.showMoves() },
      { keys: ["/"], everywhere: true, text: "search; \u2191 and \u2193 choose a hit, \u2192 its buttons", run: () => this.search.focus() },
      { keys: ["?"], everywhere: true, text: "this help", run: () => showHelp(this.commands) },
      { keys: ["Escape"], everywhere: true, text: "close, or go back", run: () => this.escape() },
    ];
  }
}

bindTheme(byId("theme"));
const token = takeToken();
if (token) new Page(token).start();
else {
  fill(byId("connection"), "no token");
  fill(byId("timeline"), h("div", { class: "pane-empty" }, h("h2", {}, "Open this page with its token"),
    h("p", {}, "Run ", h("code", {}, "segno web"), " and open the address that it prints, or paste it here."), tokenField()));
}
