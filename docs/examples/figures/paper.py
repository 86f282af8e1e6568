from iosim.show.plots.paper import figure as draw
from iosim.study.paper import figure2, load

figure = draw(figure2(load()))
