from ultralytics import YOLO

model = YOLO("yolov8s.pt")

results = model.train(
    data="datasets/helmets/data.yaml",
    epochs=150,
    imgsz=640,
    batch=32,
    patience=30,
    workers=8,
    project="runs",
    name="helmets",
)
metrics = model.val()
model.export(format="onnx")
